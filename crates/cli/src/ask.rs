//! Asking a running Rosemary: the client's side of the admin socket and of the kernel's.
//!
//! Every request has [`PATIENCE`] for its answer: a process that hangs is reported as such, and does
//! not hang the operator's terminal too.

mod log;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::{Config, ConfigError, SYSTEM_CONFIG};
use control::operator::{OperatorReply, OperatorRequest, ProgramUsage, Status};
use control::query::{
    AppCounters, FLOWS_TIMEOUT, FlowStatus, KernelQuery, KernelQueryReply, SwitchStatus,
};
use monitor::options::{ADMIN_SOCKET, Place, SYSTEM_RUNTIME_DIR};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use thiserror::Error;

pub use self::log::Log;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a question was not answered.
#[derive(Debug, Error)]
pub enum AskError {
    /// There is no Rosemary.
    #[error("nothing runs here (no {}); start it with `rosemary up`", list(.0))]
    NothingRuns(Vec<PathBuf>),
    /// There is one, or was, and it cannot be connected to.
    #[error("cannot connect to {path}; {hint}")]
    Connect {
        /// The admin socket.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// It did not answer.
    #[error("{whom} did not answer; its log says why")]
    Silent {
        /// Who was asked.
        whom: &'static str,
        /// What happened to the connection.
        source: ChannelError,
    },
    /// It hangs, or the machine does.
    #[error("{whom} did not answer within {} s", .patience.as_secs())]
    Late {
        /// Who was asked.
        whom: &'static str,
        /// How long it had.
        patience: Duration,
    },
    /// The kernel could not find it out.
    #[error("{0}")]
    NotKnown(String),
    /// It refused.
    #[error("the monitor refused: {0}")]
    Refused(String),
    /// It cannot answer now.
    #[error("cannot be asked now: {0}; try again in a moment")]
    Unavailable(String),
    /// It answered something else; the two programs are not of the same version.
    #[error("{whom} answered another question; is it of another version than this command?")]
    Unexpected {
        /// Who was asked.
        whom: &'static str,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing says where the runtime directory is.
    #[error(transparent)]
    Place(#[from] monitor::error::StartError),
}

/// A connection to the monitor of a running Rosemary.
#[derive(Debug)]
pub struct Monitor(Channel);

impl Monitor {
    /// Connects to the Rosemary at `place`.
    ///
    /// Where the place is not stated, a user's own is looked for first and then the system's,
    /// which members of the group `rosemary` may ask.
    ///
    /// # Errors
    /// [`AskError::NothingRuns`], [`AskError::Connect`] or [`AskError::Place`].
    pub fn connect(place: &Place) -> Result<Self, AskError> {
        let sockets = sockets(place)?;
        for path in &sockets {
            match sys::named::connect_patiently(path, PATIENCE) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    let (path, hint) = (path.clone(), hint(&source));
                    return Err(AskError::Connect { path, hint, source });
                }
                Ok(channel) => return Ok(Self(channel)),
            }
        }
        Err(AskError::NothingRuns(sockets))
    }

    /// What runs.
    ///
    /// # Errors
    /// It did not answer, or refused.
    pub fn status(&self) -> Result<Status, AskError> {
        match self.ask(OperatorRequest::Status)? {
            (OperatorReply::Status(status), _) => Ok(status),
            (tell, _) => Err(refusal(tell)),
        }
    }

    /// How much each program uses.
    ///
    /// # Errors
    /// It did not answer, or refused.
    pub fn usage(&self) -> Result<Vec<ProgramUsage>, AskError> {
        match self.ask(OperatorRequest::Usage)? {
            (OperatorReply::Usage(usage), _) => Ok(usage),
            (tell, _) => Err(refusal(tell)),
        }
    }

    /// A connection to the kernel.
    ///
    /// # Errors
    /// [`AskError::Unavailable`] while there is none; it did not answer, or refused.
    pub fn kernel(&self) -> Result<Kernel, AskError> {
        match self.ask(OperatorRequest::Kernel)? {
            (OperatorReply::Kernel, Some(fd)) => Ok(Kernel(Channel::from_fd(fd))),
            (tell, _) => Err(refusal(tell)),
        }
    }

    /// A connection to the log.
    ///
    /// # Errors
    /// [`AskError::Unavailable`] while there is none; it did not answer, or refused.
    pub fn log(&self) -> Result<Log, AskError> {
        match self.ask(OperatorRequest::Log)? {
            (OperatorReply::Log, Some(fd)) => Ok(Log::new(fd)),
            (tell, _) => Err(refusal(tell)),
        }
    }

    fn ask(&self, ask: OperatorRequest) -> Result<(OperatorReply, Option<OwnedFd>), AskError> {
        let (tell, fds) = exchange(&self.0, &ask, "the monitor", PATIENCE)?;
        Ok((tell, fds.into_iter().next()))
    }
}

/// A connection to the kernel of a running Rosemary.
#[derive(Debug)]
pub struct Kernel(Channel);

impl Kernel {
    const WHOM: &str = "the kernel";

    /// What became of the packet-ins for the apps, and of their messages.
    ///
    /// # Errors
    /// It did not answer.
    pub fn apps(&self) -> Result<Vec<AppCounters>, AskError> {
        match exchange(&self.0, &KernelQuery::Apps, Self::WHOM, PATIENCE)? {
            (KernelQueryReply::Apps(apps), _) => Ok(apps),
            _ => Err(AskError::Unexpected { whom: Self::WHOM }),
        }
    }

    /// The switches that are connected, in the order of their DPIDs.
    ///
    /// # Errors
    /// It did not answer.
    pub fn switches(&self) -> Result<Vec<SwitchStatus>, AskError> {
        let unexpected = || AskError::Unexpected { whom: Self::WHOM };
        let mut all: Vec<SwitchStatus> = Vec::new();
        loop {
            let after = match all.last() {
                Some(last) => Some(dpid(&last.dpid).ok_or_else(unexpected)?),
                None => None,
            };
            let query = KernelQuery::Switches { after };
            let (reply, _) = exchange(&self.0, &query, Self::WHOM, PATIENCE)?;
            let KernelQueryReply::Switches { switches, more } = reply else {
                return Err(unexpected());
            };
            if more && switches.is_empty() {
                return Err(unexpected()); // would be asked for ever
            }
            all.extend(switches);
            if !more {
                return Ok(all);
            }
        }
    }
}

impl Kernel {
    /// The flows that a switch has, in its order; `None` if no such switch is connected.
    ///
    /// # Errors
    /// [`AskError::NotKnown`] if the switch does not tell; the kernel did not answer.
    pub fn flows(&self, dpid: u64) -> Result<Option<Vec<FlowStatus>>, AskError> {
        let mut all = Vec::new();
        let mut query = KernelQuery::Flows { dpid };
        loop {
            let (reply, _) = exchange(&self.0, &query, Self::WHOM, FLOWS_TIMEOUT)?;
            match reply {
                KernelQueryReply::NoSwitch => return Ok(None),
                KernelQueryReply::Failed { why } => return Err(AskError::NotKnown(why)),
                KernelQueryReply::Flows { flows, more } => {
                    if more && flows.is_empty() {
                        return Err(AskError::Unexpected { whom: Self::WHOM });
                    }
                    all.extend(flows);
                    if !more {
                        return Ok(Some(all));
                    }
                }
                KernelQueryReply::Switches { .. } | KernelQueryReply::Apps(_) => {
                    return Err(AskError::Unexpected { whom: Self::WHOM });
                }
            }
            query = KernelQuery::MoreFlows;
        }
    }
}

/// The admin sockets that may be meant, the likeliest first.
fn sockets(place: &Place) -> Result<Vec<PathBuf>, AskError> {
    let config = match Config::load(place.config.as_deref()) {
        Err(error) if place.config.is_some() => return Err(error.into()),
        // What runs was started before it was broken.
        result => result.unwrap_or_default(),
    };
    let mut dirs = Vec::new();
    match place.resolve(&config) {
        Ok(dir) => dirs.push(dir),
        Err(error) if place.runtime_dir.is_some() => return Err(error.into()),
        Err(_) => {} // without a session there is still the system's
    }
    if place.runtime_dir.is_none() {
        // Who is not root may not be allowed to read it.
        let system = Config::load(Some(Path::new(SYSTEM_CONFIG))).unwrap_or_default();
        dirs.extend(system.runtime_dir);
        dirs.push(SYSTEM_RUNTIME_DIR.into());
    }
    let mut sockets: Vec<PathBuf> = Vec::new();
    for socket in dirs.into_iter().map(|dir| dir.join(ADMIN_SOCKET)) {
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
    }
    Ok(sockets)
}

/// The number of a DPID written as `00:00:00:00:00:00:00:01`.
fn dpid(text: &str) -> Option<u64> {
    u64::from_str_radix(&text.replace(':', ""), 16).ok()
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root, the user who started Rosemary and the group rosemary may ask"
        }
        io::ErrorKind::ConnectionRefused => {
            "Rosemary was killed there; start it again with `rosemary up`"
        }
        io::ErrorKind::WouldBlock => "too many ask it at the same time; try again",
        _ => "`rosemary up` starts Rosemary, --runtime-dir says where it is",
    }
}

fn refusal(tell: OperatorReply) -> AskError {
    match tell {
        OperatorReply::Refused { why } => AskError::Refused(why),
        OperatorReply::Unavailable { why } => AskError::Unavailable(why),
        OperatorReply::Status(_)
        | OperatorReply::Usage(_)
        | OperatorReply::Kernel
        | OperatorReply::Log => AskError::Unexpected { whom: "the monitor" },
    }
}

/// Sends a question and waits for its answer.
fn exchange<Q: Serialize, A: DeserializeOwned>(
    channel: &Channel,
    question: &Q,
    whom: &'static str,
    patience: Duration,
) -> Result<(A, Vec<OwnedFd>), AskError> {
    let silent = |source| AskError::Silent { whom, source };
    channel.send(question, &[]).map_err(silent)?;
    let give_up = Instant::now() + patience;
    loop {
        match channel.receive() {
            Err(ChannelError::WouldBlock) => {}
            result => return result.map_err(silent),
        }
        wait(channel, whom, patience, give_up)?;
    }
}

/// Waits until something can be read, or it is too late.
fn wait(
    socket: &impl AsFd,
    whom: &'static str,
    patience: Duration,
    give_up: Instant,
) -> Result<(), AskError> {
    let late = || AskError::Late { whom, patience };
    let rest = give_up.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(late());
    }
    let rest = Timespec::try_from(rest).map_err(|_| late())?;
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&rest)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(AskError::Silent { whom, source: ChannelError::System(error.into()) }),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", no ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(number: u64) -> SwitchStatus {
        SwitchStatus {
            dpid: format!("00:00:00:00:00:00:00:{number:02x}"),
            version: "1.3".into(),
            address: "127.0.0.1:43210".into(),
            transport: "tcp".into(),
            epoch: 1,
            ports: 2,
            n_tables: 1,
            table_size: None,
            flows: None,
            fullest: None,
            packet_ins: 0,
            dropped: 0,
            pauses: 0,
            guarded: 0,
            flow_mods: 0,
            packet_outs: 0,
            refused: 0,
            unsent: 0,
            errors: 0,
        }
    }

    /// Answers queries with pages of two switches, from 1 to `last`.
    fn kernel_with(last: u64) -> Kernel {
        let (ours, theirs) = Channel::pair().unwrap();
        std::thread::spawn(move || {
            loop {
                poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
                let Ok((KernelQuery::Switches { after }, _)) = theirs.receive() else { return };
                let first = after.map_or(1, |after| after + 1);
                let switches = (first..=last).take(2).map(switch).collect();
                let reply = KernelQueryReply::Switches { switches, more: first + 1 < last };
                theirs.send(&reply, &[]).unwrap();
            }
        });
        Kernel(ours)
    }

    #[test]
    fn switches_are_asked_for_page_by_page() {
        for last in [0, 1, 2, 3, 5] {
            let switches = kernel_with(last).switches().unwrap();
            let numbers: Vec<_> = switches.iter().map(|it| dpid(&it.dpid).unwrap()).collect();
            assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
        }
    }

    #[test]
    fn flows_are_asked_for_page_by_page_and_what_is_not_known_is_told_as_such() {
        let flow = |number: u16| FlowStatus {
            table: 0,
            priority: number,
            owner: "kernel".into(),
            cookie: "0x0".into(),
            match_: String::new(),
            actions: String::new(),
            packets: None,
            bytes: None,
            duration_ms: 0,
            idle_timeout: 0,
            hard_timeout: 0,
        };
        let (ours, theirs) = Channel::pair().unwrap();
        std::thread::spawn(move || {
            let page = |flows: std::ops::Range<u16>, more| KernelQueryReply::Flows {
                flows: flows.map(flow).collect(),
                more,
            };
            let why = "the switch does not answer".to_owned();
            let replies = [
                page(0..2, true),
                page(2..3, false),
                KernelQueryReply::NoSwitch,
                KernelQueryReply::Failed { why },
            ];
            for (number, reply) in replies.into_iter().enumerate() {
                poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
                let expected = if number == 1 {
                    KernelQuery::MoreFlows
                } else {
                    KernelQuery::Flows { dpid: 7 }
                };
                assert_eq!(theirs.receive::<KernelQuery>().unwrap().0, expected);
                theirs.send(&reply, &[]).unwrap();
            }
        });
        let kernel = Kernel(ours);
        let flows = kernel.flows(7).unwrap().unwrap();
        assert!(flows.iter().map(|flow| flow.priority).eq(0..3));
        assert!(kernel.flows(7).unwrap().is_none());
        assert_eq!(kernel.flows(7).unwrap_err().to_string(), "the switch does not answer");
    }

    #[test]
    fn place_where_nothing_runs_is_told_with_what_to_type() {
        let place = Place { runtime_dir: Some("/nowhere".into()), config: None };
        let error = Monitor::connect(&place).unwrap_err().to_string();
        assert_eq!(
            error,
            "nothing runs here (no /nowhere/admin.sock); start it with `rosemary up`"
        );
    }

    #[test]
    fn peer_that_closes_without_an_answer_is_an_error() {
        let (ours, theirs) = Channel::pair().unwrap();
        drop(theirs);
        let error = Monitor(ours).status().unwrap_err().to_string();
        assert_eq!(error, "the monitor did not answer; its log says why");
    }
}
