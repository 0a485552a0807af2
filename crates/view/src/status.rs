//! Judges whether a running Rosemary is healthy: whether everything that is configured runs, within its limits.

use control::change::UnconfirmedConfig;
use control::operator::{
    AppStatus, ProgramState, ProgramUsage, RefusedConnection, ServiceStatus, Status, Suspect,
    UnservedService,
};
use control::query::{AppCounters, FailingMessage, Fullest, SwitchStatus};
use serde::{Deserialize, Serialize};

use crate::client::{ClientError, Monitor};

/// The verdict of `rosemary status`, and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The verdict.
    pub verdict: Verdict,
    /// The faults, as phrases; empty if it is healthy.
    pub reasons: Vec<String>,
}

/// Whether everything that is configured runs, within its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It does.
    Healthy,
    /// It does not.
    Degraded,
}

/// The state on which the verdict depends.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The programs.
    pub programs: &'a Status,
    /// The use of their limits, or why it is unknown.
    pub usage: Result<&'a [ProgramUsage], &'a str>,
    /// The counters of the apps.
    pub apps: &'a [AppCounters],
    /// The switches, or why they are unknown.
    pub switches: Result<&'a [SwitchStatus], &'a str>,
}

impl Health {
    /// Judges these findings.
    pub fn of(findings: &Findings<'_>) -> Self {
        let Findings { programs, usage, apps, switches } = findings;
        let mut reasons = Vec::new();
        let mut program = |what: String, state: ProgramState, last_exit: Option<&str>| {
            if state != ProgramState::Running {
                let why = last_exit.map_or_else(String::new, |exit| format!(": {exit}"));
                reasons.push(format!("{what} is {state}{why}"));
            }
        };
        let kernel = &programs.kernel;
        program("the kernel".into(), kernel.state, kernel.last_exit.as_deref());
        // Nothing waits for the HTTP interface, so it may be late.
        let is_late =
            |it: &ServiceStatus| it.name == "northbound" && it.state == ProgramState::Starting;
        for it in programs.services.iter().filter(|it| !is_late(it)) {
            program(format!("the service {}", it.name), it.state, it.last_exit.as_deref());
        }
        for it in &programs.apps {
            // An operator stopped it.
            if it.state != ProgramState::Stopped {
                program(format!("the app {}", it.name), it.state, it.last_exit.as_deref());
            }
        }
        let starts = |command: &str| match programs.safe_mode {
            None => format!("`{command}` starts it"),
            // No command starts a single app then.
            Some(_) => "see `rosemary safe-mode status`".into(),
        };
        let is_stopped = |app: &&AppStatus| app.state == ProgramState::Stopped;
        for app in programs.apps.iter().filter(|app| app.stage == "guard").filter(is_stopped) {
            let name = &app.name;
            let starts = starts(&format!("rosemary app start {name}"));
            reasons.push(format!(
                "the guard {name} is stopped, so packets without a flow pass without its verdict or, if it fails \
                 closed, are dropped; {starts}"
            ));
        }
        for UnservedService { service, clients, remedy } in &programs.unserved {
            let (clients, starts) = (clients.join(", "), starts(remedy));
            reasons.push(format!(
                "the service {service} does not run, and these apps use it: {clients}; {starts}"
            ));
        }
        for app in &programs.apps {
            if let Some(why) = &app.demoted {
                reasons.push(format!("the app {} was moved out of the kernel: {why}", app.name));
            }
        }
        for app in &programs.apps {
            if let Some(why) = &app.kept {
                let name = &app.name;
                reasons.push(format!("the app {name} goes on with its last good files: {why}"));
            }
        }
        for app in &programs.apps {
            reasons.extend(app.problem.iter().map(|why| format!("the app {}: {why}", app.name)));
        }
        if let Some(safe_mode) = &programs.safe_mode {
            reasons.push(format!("Rosemary is in safe mode: {}", safe_mode.why));
            reasons.extend(safe_mode.suspects.iter().map(|Suspect { app, why }| {
                format!("the app {app} is held, as safe mode named it: {why}")
            }));
        }
        reasons.extend(programs.other_controller.iter().cloned());
        let rejected = programs.rejected.iter();
        reasons.extend(rejected.map(|why| format!("the last reload was refused: {why}")));
        if let Some(UnconfirmedConfig { id, overdue: Some(why), .. }) = &programs.unconfirmed {
            reasons.push(format!(
                "nobody confirmed change {id} of the configuration, and the one before has not returned: {why}"
            ));
        }
        reasons.extend(programs.not_stored.iter().cloned());
        for app in apps.iter().filter(|app| app.skipped) {
            reasons.push(format!("the app {} is skipped, because it answers too late", app.name));
        }
        if let Err(why) = usage {
            reasons.push(format!("the use of limits is unknown: {why}"));
        }
        let usage = usage.unwrap_or_default();
        for program in usage.iter().filter(|program| !program.above.is_empty()) {
            let limits = program.above.join(", ");
            let ProgramUsage { kind, name, .. } = program;
            reasons.push(format!("the {kind} {name} is above its soft limit of {limits}"));
        }
        match switches {
            Ok(switches) => {
                let is_connected = |dpid: &str| switches.iter().any(|switch| switch.dpid == dpid);
                for it in programs.refused.iter().filter(|it| !is_connected(&it.dpid)) {
                    let RefusedConnection { dpid, address, why, .. } = it;
                    reasons.push(format!("switch {dpid} at {address} is refused: {why}"));
                }
                for switch in *switches {
                    let full = fullest(switch);
                    reasons.extend(full.map(|full| format!("switch {}: {full}", switch.dpid)));
                    let failing = switch.failing.iter().map(failing);
                    reasons.extend(failing.map(|it| format!("switch {}: {it}", switch.dpid)));
                }
            }
            Err(why) => reasons.push(format!("the switches are unknown: {why}")),
        }
        let verdict = if reasons.is_empty() { Verdict::Healthy } else { Verdict::Degraded };
        Self { verdict, reasons }
    }

    /// Returns lines for the operator; nothing if it is healthy.
    pub fn text(&self) -> String {
        self.reasons.iter().flat_map(|reason| ["DEGRADED: ", reason, "\n"]).collect()
    }
}

/// Most switches whose foreign flows have a warning of their own.
const MOST_FOREIGN: usize = 8;

/// Returns a warning for each switch that has flows which no app of this installation has written.
fn foreign_flows(switches: &[SwitchStatus]) -> Vec<String> {
    let foreign: Vec<&SwitchStatus> = switches.iter().filter(|it| it.foreign_flows > 0).collect();
    let warning = |it: &&SwitchStatus| {
        let SwitchStatus { dpid, foreign_flows: count, .. } = it;
        let flows = if *count == 1 { "flow" } else { "flows" };
        format!(
            "switch {dpid} has {count} {flows} of others, such as another controller or an installation whose state was lost; \
             `rosemary flows {dpid}` shows them with the owner \"other\", `rosemary flows {dpid} --orphans remove` removes them"
        )
    };
    let mut warnings: Vec<String> = foreign.iter().take(MOST_FOREIGN).map(warning).collect();
    if let Some(rest) = foreign.len().checked_sub(MOST_FOREIGN).filter(|rest| *rest > 0) {
        warnings.push(format!(
            "{rest} more switches have flows of others; `rosemary flows --orphans` lists them"
        ));
    }
    warnings
}

/// The printed status; its JSON is a stable interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The programs that the monitor started.
    #[serde(flatten)]
    pub programs: Status,
    /// The connected switches; `None` if the kernel did not report them.
    pub switches: Option<Vec<SwitchStatus>>,
    /// Why `switches` is `None`, with the causes.
    pub switches_error: Option<String>,
    /// Whether everything that is configured runs, within its limits.
    pub health: Health,
}

impl Report {
    /// Returns the app with this name.
    pub fn app(&self, name: &str) -> Option<&AppStatus> {
        self.programs.apps.iter().find(|app| app.name == name)
    }

    /// Returns the connected switch with this datapath id.
    pub fn switch(&self, dpid: &str) -> Option<&SwitchStatus> {
        self.switches.iter().flatten().find(|switch| switch.dpid == dpid)
    }

    /// Returns the ids of all listed processes.
    pub fn pids(&self) -> Vec<u32> {
        let apps = self.programs.apps.iter().filter_map(|app| app.pid);
        let kernel = self.programs.kernel.pid;
        let services = self.programs.services.iter().filter_map(|service| service.pid);
        let monitor = [self.programs.monitor.pid].into_iter();
        monitor.chain(kernel).chain(services).chain(apps).collect()
    }
}

impl Report {
    /// Requests everything, and judges it.
    ///
    /// # Errors
    /// The monitor does not answer. If the kernel does not, the report says so.
    pub fn query(monitor: &Monitor) -> Result<Self, ClientError> {
        let programs = monitor.status()?;
        // The monitor closes connections when there are too many. The programs are known all the same.
        let usage = monitor.usage().map_err(|error| with_causes(&error));
        let kernel = monitor.kernel().and_then(|kernel| Ok((kernel.switches()?, kernel.apps()?)));
        let (switches, counters, switches_error) = match kernel {
            Ok((switches, counters)) => (Some(switches), counters, None),
            Err(error) => (None, Vec::new(), Some(with_causes(&error))),
        };
        let health = Health::of(&Findings {
            programs: &programs,
            usage: usage.as_deref().map_err(String::as_str),
            apps: &counters,
            switches: match (&switches, &switches_error) {
                (Some(switches), _) => Ok(switches),
                (None, why) => Err(why.as_deref().unwrap_or_default()),
            },
        });
        let mut programs = programs;
        programs.warnings.extend(foreign_flows(switches.as_deref().unwrap_or_default()));
        Ok(Self { programs, switches, switches_error, health })
    }
}

/// An error with its causes, as one phrase.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Describes the fullest table of a switch, if that is nearly full.
pub fn fullest(switch: &SwitchStatus) -> Option<String> {
    match &switch.fullest {
        Some(Fullest { table, flows, size, nearly_full: true, app }) => {
            let most = app.as_ref().map_or(String::new(), |app| format!(", most by {app}"));
            Some(format!("table {table} nearly full ({flows} of {size}{most})"))
        }
        _ => None,
    }
}

/// Describes a message that a switch does not carry out.
pub fn failing(it: &FailingMessage) -> String {
    let FailingMessage { message, why, effect, tries, seconds } = it;
    let times = if *tries == 1 { "once".to_owned() } else { format!("{tries} times") };
    format!("{message} failed {times} in {seconds} s ({why}); {effect}")
}

#[cfg(test)]
mod tests {
    use control::operator::{KernelStatus, MonitorStatus, SafeModeStatus};

    use super::*;

    fn app(name: &str, state: ProgramState) -> AppStatus {
        let text = format!(
            r#"{{"name":"{name}","number":1,"stage":"control","band":null,"host":"user","demoted":null,
            "version":null,"sha256":null,"origin":"shipped","signed_by":null,"pid":null,"uid":1,
            "state":"{state}","restarts":0,"last_exit":null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn findings(programs: &Status) -> Findings<'_> {
        Findings { programs, usage: Ok(&[]), apps: &[], switches: Ok(&[]) }
    }

    #[test]
    fn refused_switch_is_a_reason_unless_it_is_connected() {
        let text = r#"{"version":"","monitor":{"pid":1,"uptime_seconds":1.0},"kernel":{"pid":2,"uid":3,
            "state":"running","restarts":0,"last_exit":null,"listen":[]},"services":[],"apps":[],
            "refused":[{"dpid":"00:00:00:00:00:00:00:07","address":"10.0.0.9","why":"its certificate is for others",
            "seconds_ago":3}]}"#;
        let programs: Status = serde_json::from_str(text).unwrap();
        let health = Health::of(&findings(&programs));
        let reason =
            "switch 00:00:00:00:00:00:00:07 at 10.0.0.9 is refused: its certificate is for others";
        assert_eq!(
            (health.verdict, &health.reasons[..]),
            (Verdict::Degraded, &[reason.to_owned()][..])
        );
        let connected: SwitchStatus = serde_json::from_str(
            r#"{"dpid":"00:00:00:00:00:00:00:07","version":"1.3","address":"10.0.0.7:1","transport":"tcp",
            "epoch":1,"ports":0,"flows":null,"packet_ins":0,"dropped":0,"guarded":0,"flow_mods":0,
            "packet_outs":0,"refused":0,"errors":0,"fullest":null}"#,
        )
        .unwrap();
        let health = Health::of(&Findings { switches: Ok(&[connected]), ..findings(&programs) });
        assert_eq!(
            health.verdict,
            Verdict::Healthy,
            "an impostor of a connected switch is no fault"
        );
    }

    #[test]
    fn failing_message_names_the_reason_and_the_effect() {
        let mut it = FailingMessage {
            message: "the table-miss entry".into(),
            why: "it refused it".into(),
            effect: "packets are lost".into(),
            tries: 1,
            seconds: 0,
        };
        let text = "the table-miss entry failed once in 0 s (it refused it); packets are lost";
        assert_eq!(failing(&it), text);
        (it.tries, it.seconds) = (3, 7);
        assert!(failing(&it).starts_with("the table-miss entry failed 3 times in 7 s "));
    }

    #[test]
    fn each_fault_is_a_reason() {
        let kernel = KernelStatus {
            pid: Some(2),
            uid: 1_879_048_192,
            state: ProgramState::Running,
            restarts: 0,
            last_exit: None,
            listen: Vec::new(),
        };
        let mut programs = Status {
            version: String::new(),
            monitor: MonitorStatus { pid: 1, uptime_seconds: 1.0 },
            kernel,
            services: Vec::new(),
            apps: vec![app("a", ProgramState::Running)],
            inactive: Vec::new(),
            warnings: Vec::new(),
            unheld: Vec::new(),
            unserved: Vec::new(),
            refused: Vec::new(),
            not_stored: Vec::new(),
            rejected: None,
            unconfirmed: None,
            other_controller: None,
            safe_mode: None,
        };
        let healthy = Health::of(&findings(&programs));
        assert_eq!(healthy, Health { verdict: Verdict::Healthy, reasons: Vec::new() });
        assert_eq!(healthy.text(), "");

        programs.apps = vec![app("a", ProgramState::Held)];
        programs.apps[0].last_exit = Some("killed by SIGSEGV".into());
        programs.apps[0].kept = Some("line 3 is wrong".into());
        programs.apps[0].problem = Some("rule 3 is in no switch".into());
        programs.safe_mode = Some(Box::new(SafeModeStatus {
            why: "the kernel ended 5 times in 60 s".into(),
            complete: false,
            on_trial: None,
            passed: Vec::new(),
            waiting: Vec::new(),
            suspects: vec![Suspect { app: "b".into(), why: "killed by SIGSEGV".into() }],
        }));
        programs.rejected = Some("rosemary.toml:7: no".into());
        programs.other_controller = Some("another controller commands switch 1".into());
        programs.not_stored = vec!["incidents cannot be stored: no space; make room".into()];
        programs.unserved = vec![UnservedService {
            service: "hosts".into(),
            clients: vec!["a".into(), "b".into()],
            remedy: "rosemary app start hosts".into(),
        }];
        let usage = ProgramUsage {
            name: "a".into(),
            kind: "app".into(),
            state: ProgramState::Running,
            pid: None,
            restarts: 0,
            uses: Vec::new(),
            above: vec!["memory".into(), "cpu".into()],
            events_per_second: None,
            dropped: None,
            refused: None,
            delayed: None,
        };
        let skipped = AppCounters { name: "a".into(), skipped: true, ..AppCounters::default() };
        let health = Health::of(&Findings {
            usage: Ok(&[usage]),
            apps: &[skipped],
            switches: Err("the kernel is starting"),
            ..findings(&programs)
        });
        assert_eq!(health.verdict, Verdict::Degraded);
        assert_eq!(
            health.reasons,
            [
                "the app a is held: killed by SIGSEGV",
                "the service hosts does not run, and these apps use it: a, b; see `rosemary safe-mode status`",
                "the app a goes on with its last good files: line 3 is wrong",
                "the app a: rule 3 is in no switch",
                "Rosemary is in safe mode: the kernel ended 5 times in 60 s",
                "the app b is held, as safe mode named it: killed by SIGSEGV",
                "another controller commands switch 1",
                "the last reload was refused: rosemary.toml:7: no",
                "incidents cannot be stored: no space; make room",
                "the app a is skipped, because it answers too late",
                "the app a is above its soft limit of memory, cpu",
                "the switches are unknown: the kernel is starting",
            ]
        );

        programs.safe_mode = None;
        let health = Health::of(&findings(&programs));
        let unserved = "the service hosts does not run, and these apps use it: a, b; `rosemary app start hosts` starts it";
        assert_eq!(health.reasons[1], unserved);
    }
}
