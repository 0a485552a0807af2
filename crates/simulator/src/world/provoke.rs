//! Faults and requests: one of them after each short time of a storm.

use std::time::Duration;

use control::change::{AppVerb, Change, ChangeRequest};
use control::log::LogLevel;
use control::operator::MonitorStatus;
use supervisor::Event;
use supervisor::change::Requester;

use super::World;
use crate::checks::Checks;
use crate::faults::{OF_MACHINE, Provoked, provoke};

/// Requests of operators.
pub(crate) const REQUESTS: [&str; 20] = [
    "start",
    "stop",
    "restart",
    "enable",
    "disable",
    "promote",
    "upgrade",
    "rollback",
    "reload",
    "reload and wait",
    "confirm",
    "undo",
    "dry run",
    "log level",
    "session",
    "leave safe mode",
    "configure",
    "stage",
    "limit",
    "signal",
];

impl World {
    /// Lets a fault happen, or an operator request something.
    pub(super) fn provoke(&mut self) -> Result<(), String> {
        match self.tape.below(100) {
            0..20 => self.request(),
            20..97 => {
                let kind = match self.tape.below(100) {
                    0..26 => "kernel",
                    26..36 => "zone",
                    36..50 => "log",
                    50..62 => "storage",
                    62..73 => "broker",
                    73..89 => "ovsdb",
                    _ => "northbound",
                };
                let (fault, provoked) = provoke(kind, &mut self.machine, &mut self.tape);
                match provoked {
                    Provoked::Later => Ok(()),
                    Provoked::Now => {
                        self.provoked("fault", &format!("{kind} {fault}"));
                        self.coverage.steps += 1;
                        Ok(())
                    }
                    Provoked::Event(program, event) => {
                        self.provoked("fault", &format!("{kind} {fault}"));
                        self.decide(Event::Process(program, event))
                    }
                }
            }
            _ => self.break_machine(),
        }
    }

    /// An operator undoes one of the last changes of the configuration.
    fn undo(&mut self) -> Change {
        let last = self.supervisor.history().last().map_or(0, |it| it.change.id);
        let id = last.saturating_sub(self.tape.below(3));
        let confirm = self.tape.happens(200).then_some(10);
        let (dry_run, force) = (self.tape.happens(100), self.tape.happens(700));
        Change::Undo { id, dry_run, confirm, force }
    }

    fn break_machine(&mut self) -> Result<(), String> {
        let Some(fault) = self.tape.one(&OF_MACHINE).copied() else { return Ok(()) };
        // The worst moment for an end of the monitor.
        let is_worst = self.waiting.is_some() && self.tape.happens(500);
        match if is_worst { "monitor is killed" } else { fault } {
            "disk is full" => {
                let is_full = self.disk.is_full();
                self.disk.set_full(!is_full);
            }
            "monitor is killed" => {
                self.provoked("fault", "machine monitor is killed");
                self.coverage.steps += 1;
                return self.boot_again();
            }
            "out of descriptors" => self.disk.lose_descriptors(),
            "file is unreadable" => self.disk.make_unreadable("alpha"),
            "object is replaced" => {
                let staged = self.tape.happens(500);
                self.disk.replace_object(staged, &mut self.tape);
            }
            _ => {
                let jump = Duration::from_secs(1 + self.tape.below(7200));
                self.clock.set(self.now() + jump);
                self.checks.jumped();
                self.weather_until = self.weather_until.max(self.now() + Duration::from_secs(5));
            }
        }
        self.provoked("fault", &format!("machine {fault}"));
        self.coverage.steps += 1;
        Ok(())
    }

    /// An operator, or an app, requests something.
    fn request(&mut self) -> Result<(), String> {
        let now = self.now();
        let Some(name) = self.tape.one(&REQUESTS).copied() else { return Ok(()) };
        let name = match self.tape.below(100) {
            0..20 if self.waiting.is_none() => "reload and wait",
            0..2 => "confirm",
            _ => name,
        };
        let apps =
            ["topology", "gate", "sieve", "alpha", "beta", "gamma", "snake", "eye", "nobody"];
        let app = self.tape.one(&apps).copied().unwrap_or("nobody").to_owned();
        let verb = |verb| Some(Change::App { app: app.clone(), verb });
        let change = match name {
            "start" => verb(AppVerb::Start),
            "stop" => verb(AppVerb::Stop),
            "restart" => verb(AppVerb::Restart),
            "enable" => verb(AppVerb::Enable),
            "disable" => verb(AppVerb::Disable),
            "promote" => verb(AppVerb::Promote),
            "upgrade" => verb(AppVerb::Upgrade),
            "rollback" => verb(AppVerb::Rollback),
            "reload" => {
                self.disk.edit_config(&mut self.tape);
                Some(Change::Reload { dry_run: false, confirm: None })
            }
            "reload and wait" => {
                self.disk.edit_config(&mut self.tape);
                let confirm = u32::try_from(1 + self.tape.below(20)).ok();
                Some(Change::Reload { dry_run: false, confirm })
            }
            "confirm" => Some(Change::Confirm),
            "undo" => Some(self.undo()),
            "dry run" => {
                self.disk.edit_config(&mut self.tape);
                Some(Change::Reload { dry_run: true, confirm: None })
            }
            "log level" => {
                let level = self.tape.happens(500).then_some(LogLevel::Debug);
                Some(Change::LogLevel { app: app.clone(), level })
            }
            "session" => {
                let session = self.tape.one(&["fast", "slow", "system", "none"]).copied();
                let session = session.unwrap_or("none").to_owned();
                let values = vec![("runtime-us".to_owned(), 1_000 * self.tape.below(12))];
                Some(Change::Session { session, values })
            }
            "leave safe mode" => Some(Change::LeaveSafeMode),
            "configure" => {
                let (expected, dry_run) = (String::new(), false);
                Some(Change::Configure { expected, dry_run, confirm: None })
            }
            "stage" => Some(Change::Stage { app: app.clone() }),
            _ => None,
        };
        match (name, change) {
            (_, Some(change)) => {
                let fds = match &change {
                    Change::Stage { .. } => {
                        (0..2).filter_map(|_| self.fd.try_clone().ok()).collect()
                    }
                    _ => Vec::new(),
                };
                let confirmed = self.tape.happens(500);
                self.checks.requested();
                self.is_confirmed = change == Change::Confirm;
                let request = ChangeRequest { change, confirmed };
                let who = Requester { who: "user 0", over_http: false };
                let begun = self.supervisor.begin_change(request, fds, who, now);
                self.coverage.count("change", if begun.is_ok() { "begun" } else { "refused" });
                self.provoked("request", name);
                self.coverage.steps += 1;
                self.settle()?;
                self.check_confirmation(false)?;
                self.checks.after(&self.supervisor, &self.machine, &self.contract, now)
            }
            ("limit", None) => {
                let Some(request) = self.machine.limit_request(&mut self.tape) else {
                    return Ok(());
                };
                self.provoked("request", name);
                self.decide(Event::Limit(request))
            }
            _ => match self.tape.below(12) {
                0..6 => {
                    self.provoked("request", name);
                    self.checks.requested();
                    self.decide(Event::Terminate)
                }
                6..9 => {
                    self.provoked("request", "signal");
                    self.checks.requested();
                    self.decide(Event::Reload("SIGHUP"))
                }
                _ => {
                    // Operators look at everything all the time.
                    let monitor = MonitorStatus { pid: 1, uptime_seconds: 0.0 };
                    let status = self.supervisor.status(monitor, std::iter::empty(), now);
                    Checks::status(&status)
                }
            },
        }
    }
}
