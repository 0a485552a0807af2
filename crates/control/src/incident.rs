//! Incidents: one record for each event that disturbed a program or the network.
//!
//! The monitor writes an incident when a program ends without being asked to, and for its own decisions such as
//! safe mode. The record names the program, the cause, the evidence, the reaction, and the time until the program
//! ran again. Incidents are stored apart from the log, and survive a restart of Rosemary.
//!
//! The JSON form is stable: it is the format of the store and of `rosemary incidents --json`. A field may be
//! added; [`FORMAT`] changes if a field changes its meaning.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sys::process::Exit;

/// The version of the records' format.
pub const FORMAT: u32 = 1;

/// The number of an incident. Later incidents have greater numbers, and no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IncidentId(pub u64);

impl fmt::Display for IncidentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What happened to a program, why, and how Rosemary reacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The format of this record, [`FORMAT`].
    pub version: u32,
    /// Its number.
    pub id: IncidentId,
    /// When it began, in nanoseconds since the Unix epoch.
    pub time: u64,
    /// The program that it happened to.
    pub program: Program,
    /// Why it happened.
    pub cause: Cause,
    /// How often the program ended in this way before it ran again; 1 if it did not end again.
    pub count: u32,
    /// The facts on which `cause` rests.
    pub evidence: Evidence,
    /// What Rosemary did, as phrases in the order of time.
    pub reaction: Vec<String>,
    /// Whether it lasts: the program does not run again yet.
    pub open: bool,
    /// How long it lasted, in milliseconds; `None` while it lasts, and if that is unknown.
    pub duration_ms: Option<u64>,
}

/// The kind of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The resource monitor.
    Monitor,
    /// The kernel.
    Kernel,
    /// A service.
    Service,
    /// An app, in a zone or in the kernel.
    App,
}

/// A program of Rosemary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Program {
    /// Its kind.
    pub kind: Kind,
    /// Its name: of a service or an app its own, otherwise the kind's.
    pub name: String,
}

impl Program {
    /// The resource monitor.
    pub fn monitor() -> Self {
        Self { kind: Kind::Monitor, name: "monitor".into() }
    }

    /// The kernel.
    pub fn kernel() -> Self {
        Self { kind: Kind::Kernel, name: "kernel".into() }
    }

    /// The service `name`.
    pub fn service(name: &str) -> Self {
        Self { kind: Kind::Service, name: name.into() }
    }

    /// The app `name`.
    pub fn app(name: &str) -> Self {
        Self { kind: Kind::App, name: name.into() }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Monitor | Kind::Kernel => f.write_str(&self.name),
            Kind::Service => write!(f, "service {}", self.name),
            Kind::App => write!(f, "app {}", self.name),
        }
    }
}

/// Why an incident happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// A signal ended the program.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// The program exited.
    Exit {
        /// Its exit code.
        code: i32,
    },
    /// The app panicked, or returned an error that it could not go on with.
    Panic,
    /// The program made no progress, was not ready in time, or did not end in time.
    Hang,
    /// The program exceeded a hard limit.
    Limit {
        /// The limit's name, as in the configuration.
        limit: String,
    },
    /// The program's memory grew past its bound.
    Leak,
    /// The program sent a message that breaks a protocol of Rosemary.
    Protocol,
    /// The app or the service reported that it cannot run with its current files.
    Unfit,
    /// The program could not be executed.
    NotStarted,
    /// The program ended too often and is held: an app until its files change or an operator starts it, a service for
    /// the window of its restarts.
    TooManyRestarts,
    /// A switch lacks flows that the program installed.
    MissingFlows {
        /// The switch's datapath id.
        switch: String,
        /// The number of missing flows.
        flows: u64,
    },
    /// A switch does not carry out a message of the kernel or of a guard.
    FailedMessage {
        /// The switch's datapath id.
        switch: String,
        /// The message, as "the table-miss entry".
        message: String,
    },
    /// A connection claimed a datapath that it may not have, or did not complete its handshake although a switch was connected
    /// from its address before.
    RefusedSwitch {
        /// The datapath identifier of the switch.
        switch: String,
        /// Its address.
        address: IpAddr,
    },
    /// Another controller commands a switch.
    OtherController {
        /// The switch's datapath id.
        switch: String,
    },
    /// The app reported an event of the network.
    Reported {
        /// What happened, as a phrase.
        summary: String,
    },
    /// An app with the right to do so throttled or suspended the app.
    LimitedByApp {
        /// The app that did.
        by: String,
        /// Flow-mods per second for each switch; `None` if it was suspended.
        pace: Option<u32>,
    },
    /// A file of the installation differs from the release.
    DamagedFile {
        /// Its path.
        file: String,
    },
    /// Several services failed within a short time.
    Services,
    /// Rosemary entered safe mode.
    SafeMode,
    /// An upgrade of the app failed, and its earlier version was restored.
    Rollback,
    /// An operator asked for it.
    Operator,
    /// The cause is unknown: the program ended while nobody watched it.
    Unknown,
}

impl Cause {
    /// The cause that an exit status shows.
    pub fn of_exit(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self::Exit { code },
            Exit::Signal(signal) => Self::Signal { signal },
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Signal { signal } => return Exit::Signal(*signal).fmt(f),
            Self::Exit { code } => return Exit::Code(*code).fmt(f),
            Self::Limit { limit } => return write!(f, "above its {limit} limit"),
            Self::MissingFlows { switch, flows } => {
                let flows = if *flows == 1 { "1 flow".into() } else { format!("{flows} flows") };
                return write!(f, "{flows} missing on switch {switch}");
            }
            Self::FailedMessage { switch, message } => {
                return write!(f, "switch {switch} does not carry out {message}");
            }
            Self::RefusedSwitch { switch, address } => {
                return write!(f, "refused {address} as switch {switch}");
            }
            Self::OtherController { switch } => {
                return write!(f, "another controller commands switch {switch}");
            }
            Self::DamagedFile { file } => return write!(f, "{file} is not the released file"),
            Self::LimitedByApp { by, pace: None } => return write!(f, "suspended by {by}"),
            Self::LimitedByApp { by, pace: Some(pace) } => {
                return write!(f, "throttled to {pace} flow-mods/s by {by}");
            }
            Self::Reported { summary } => summary,
            Self::Panic => "panicked",
            Self::Hang => "hung",
            Self::Leak => "leaked memory",
            Self::Protocol => "broke a protocol",
            Self::Unfit => "unfit files",
            Self::NotStarted => "could not be started",
            Self::TooManyRestarts => "too many restarts",
            Self::Services => "several services failed",
            Self::SafeMode => "safe mode",
            Self::Rollback => "rolled back",
            Self::Operator => "operator's request",
            Self::Unknown => "unknown",
        };
        f.write_str(text)
    }
}

/// The facts on which an incident's cause rests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Facts, as phrases.
    pub facts: Vec<String>,
    /// The app that is to blame, if the facts show that. For the end of an app's own process this is `None`, as the
    /// incident names that app.
    pub blamed: Option<String>,
    /// The other apps that the kernel was calling.
    pub called: Vec<String>,
    /// How the kernel crashed, if it recorded that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// The last events of the kernel's workers, as they noted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<WorkerEvents>,
}

/// The last events of a worker. Apps in the kernel can forge them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEvents {
    /// The worker's number.
    pub worker: usize,
    /// The events, the oldest first.
    pub events: Vec<WorkerEvent>,
}

/// An event of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEvent {
    /// The time from the turn of the worker's loop to the end of the kernel, in microseconds.
    pub age_us: u64,
    /// The kind.
    pub kind: WorkerEventKind,
    /// The number of messages; 0 for a call.
    pub count: u16,
    /// The app that was called, or that sent the messages.
    pub app: Option<String>,
    /// The switch's datapath id, 16 hexadecimal digits in pairs; `None` if it is unknown.
    pub switch: Option<String>,
    /// The header of the first message; `None` for a call.
    pub message: Option<MessageHeader>,
}

/// The kind of a worker's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerEventKind {
    /// Messages of a switch arrived.
    Received,
    /// Messages of an app were admitted for a switch.
    Sent,
    /// The worker called an app.
    Called,
}

/// The header of an OpenFlow message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageHeader {
    /// The OpenFlow version as on the wire.
    pub version: u8,
    /// The type as on the wire, whose meaning depends on the version.
    #[serde(rename = "type")]
    pub message_type: u8,
    /// The size in bytes.
    pub size: u16,
    /// The transaction id.
    pub xid: u32,
}

/// A crash of the kernel, as it recorded it. Apps in the kernel can forge the record.
///
/// Numbers are texts with `0x` and hexadecimal digits, because JSON has no integers of 64 bits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// The signal's name.
    pub signal: String,
    /// Why the signal was sent, as sigaction(2) lists for `si_code`; above 0 for a fault of the running instruction.
    pub code: i32,
    /// The address of the fault; `None` if a process sent the signal.
    pub address: Option<String>,
    /// The thread, as a phrase.
    pub thread: String,
    /// The values of the registers, by their names.
    pub registers: BTreeMap<String, String>,
    /// The functions that were being called, the innermost first.
    pub backtrace: Vec<Frame>,
}

/// A function that was being called. Unknown parts are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The address in memory: of the instruction that crashed, or the one after a call.
    pub address: String,
    /// The app, or the program or library, in which the address is.
    pub module: Option<String>,
    /// The address in the module's file.
    pub offset: Option<String>,
    /// The function's name.
    pub function: Option<String>,
    /// The source file and line.
    pub source: Option<String>,
    /// Whether the address was only found on the stack: the function may have returned before.
    pub guess: bool,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, module, offset, function, source, guess } = self;
        match (module, offset) {
            (Some(module), Some(offset)) => write!(f, "{module}+{offset}")?,
            _ => f.write_str(address)?,
        }
        for part in [function, source].into_iter().flatten() {
            write!(f, " {part}")?;
        }
        if *guess { f.write_str(" (guess)") } else { Ok(()) }
    }
}

impl Evidence {
    /// Evidence that consists of one fact.
    pub fn fact(fact: impl Into<String>) -> Self {
        Self { facts: vec![fact.into()], ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_stable() {
        let incident = Incident {
            version: FORMAT,
            id: IncidentId(7),
            time: 1_795_253_043_120_456_789,
            program: Program::app("hub"),
            cause: Cause::Signal { signal: 11 },
            count: 1,
            evidence: Evidence::fact("ran 2.000 s"),
            reaction: vec!["restarted at once".into()],
            open: false,
            duration_ms: Some(12),
        };
        let json = concat!(
            r#"{"version":1,"id":7,"time":1795253043120456789,"program":{"kind":"app","name":"hub"},"#,
            r#""cause":{"kind":"signal","signal":11},"count":1,"#,
            r#""evidence":{"facts":["ran 2.000 s"],"blamed":null,"called":[]},"#,
            r#""reaction":["restarted at once"],"open":false,"duration_ms":12}"#
        );
        assert_eq!(serde_json::to_string(&incident).unwrap(), json);
        assert_eq!(serde_json::from_str::<Incident>(json).unwrap(), incident);
        assert_eq!(incident.cause.to_string(), "killed by SIGSEGV");
    }

    #[test]
    fn causes_with_fields_are_tagged() {
        let limit = serde_json::to_string(&Cause::Limit { limit: "memory".into() }).unwrap();
        assert_eq!(limit, r#"{"kind":"limit","limit":"memory"}"#);
        let missing = Cause::MissingFlows { switch: "1".into(), flows: 3 };
        let json = serde_json::to_string(&missing).unwrap();
        assert_eq!(json, r#"{"kind":"missing-flows","switch":"1","flows":3}"#);
        let refused = Cause::RefusedSwitch { switch: "1".into(), address: [10, 0, 0, 9].into() };
        let json = serde_json::to_string(&refused).unwrap();
        assert_eq!(json, r#"{"kind":"refused-switch","switch":"1","address":"10.0.0.9"}"#);
        let failed = Cause::FailedMessage { switch: "1".into(), message: "flows".into() };
        let json = serde_json::to_string(&failed).unwrap();
        assert_eq!(json, r#"{"kind":"failed-message","switch":"1","message":"flows"}"#);
        assert_eq!(failed.to_string(), "switch 1 does not carry out flows");
        assert_eq!(serde_json::to_string(&Cause::SafeMode).unwrap(), r#"{"kind":"safe-mode"}"#);
    }

    #[test]
    fn one_missing_flow_is_in_the_singular() {
        let missing = |flows| Cause::MissingFlows { switch: "1".into(), flows }.to_string();
        assert_eq!(missing(1), "1 flow missing on switch 1");
        assert_eq!(missing(2), "2 flows missing on switch 1");
    }
}
