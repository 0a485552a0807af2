//! `rosemary doctor`: reports which sandbox mechanisms and limits this machine supports.
//!
//! The zone program confines itself as for an app, as the calling user, and reports the result. So the
//! report is true for an app that starts now. For the limits, the command creates a cgroup and removes it. For sessions, it reserves processor
//! time for a thread of its own. It also names the other users of the machine, who can reach the HTTP interface, and what the
//! system does to protect the programs (`below.rs`).

mod below;
mod reservations;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use config::{Limit, Limits};
use monitor::usage::{EnforcedBy, Enforcement};
use monitor::{installation, sandbox_probe};
use serde::Serialize;
use sys::sandbox::{Mechanism, MechanismState, Report};

use self::below::Below;
use self::reservations::Reservations;
use crate::say;

/// Options of `rosemary doctor`.
#[derive(Debug, Clone, clap::Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The report on one mechanism.
#[derive(Debug, Serialize)]
struct MechanismReport<'a> {
    mechanism: Mechanism,
    /// `on`, `missing`, or `not needed` if another mechanism that is on has the same effect.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_to_do: Option<&'static str>,
}

/// Probes the machine and prints the report; exit code 1 if a mechanism is missing.
///
/// # Errors
/// The zone program is missing or cannot be started.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let zone = installation::program("rosemary-zone", &installation::own_dir()?)?;
    let report = sandbox_probe::run(&zone).context("cannot probe the sandbox")?;
    let mechanisms = mechanism_reports(&report);
    let gaps = report.gaps().len();
    let enforcement = Enforcement::find();
    let limits = limit_reports(&enforcement);
    let reservations = Reservations::find(&enforcement);
    let hidden = sys::process::read_other().err().map(|error| error.to_string());
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let below = Below::find(&zone.with_file_name("rosemary-monitor"));
    let others = other_users(&passwd, &[own_uid(), sudo_uid().unwrap_or(0)]);
    if args.json {
        #[derive(Serialize)]
        struct Doctor<'a> {
            full: bool,
            zones: Vec<MechanismReport<'a>>,
            limits: &'a [LimitReport],
            reservations: &'a Reservations,
            #[serde(skip_serializing_if = "Option::is_none")]
            processes_hidden: &'a Option<String>,
            below: &'a Below,
            other_users: &'a [String],
        }
        let doctor = Doctor {
            full: gaps == 0,
            zones: mechanisms,
            limits: &limits,
            reservations: &reservations,
            processes_hidden: &hidden,
            below: &below,
            other_users: &others,
        };
        say::data(format_args!("{}\n", serde_json::to_string_pretty(&doctor)?))?;
    } else {
        let mut text = String::from("The sandbox of an app, if you started Rosemary now:\n");
        let mut advice = None;
        for it in &mechanisms {
            let state =
                if it.state == "missing" { "MISSING".to_owned() } else { it.state.to_owned() };
            let _ = writeln!(text, "  {state:<11} {}", it.mechanism); // writing to a String cannot fail
            if let Some(why) = it.why {
                let _ = writeln!(text, "              {why}");
            }
            // Consecutive mechanisms with the same remedy show it once.
            if let Some(what) = it.what_to_do.filter(|what| advice.replace(*what) != Some(*what)) {
                let _ = writeln!(text, "              -> {what}");
            }
        }
        let _ = match gaps {
            0 => writeln!(
                text,
                "It has no gaps: Rosemary starts with `require = \"full\"` in [zones]."
            ),
            1 => writeln!(text, "It has a gap."),
            gaps => writeln!(text, "It has {gaps} gaps."),
        };
        text.push_str(&limits_text(&limits, sys::process::is_root()));
        if let Some(why) = hidden.filter(|_| limits.iter().any(LimitReport::needs_monitor)) {
            let _ = writeln!(
                text,
                "  Rosemary CANNOT MEASURE apps ({why}), so it does not kill apps that exceed a limit\n              \
                 -> mount /proc without hidepid, or run Rosemary as root"
            );
        }
        text.push_str(&reservations.text());
        text.push_str(&below.text());
        text.push_str(&users_text(&others));
        say::data(text)?;
    }
    Ok(if gaps == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The calling user.
fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The user who called `sudo`, if this runs in it.
fn sudo_uid() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// The lowest number of a person's account on Debian, and the first number behind these accounts (`/etc/login.defs`, `UID_MIN`).
const FIRST_PERSON: u32 = 1000;
const NOBODY: u32 = 65_534;

/// Names the accounts in `/etc/passwd` of persons who can log in, without those of `own`.
fn other_users(passwd: &str, own: &[u32]) -> Vec<String> {
    let person = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, _, _, _, shell] = fields[..] else { return None };
        let uid: u32 = uid.parse().ok()?;
        let is_person = (FIRST_PERSON..NOBODY).contains(&uid) && !own.contains(&uid);
        let logs_in = !shell.ends_with("/nologin") && !shell.ends_with("/false");
        (is_person && logs_in).then(|| name.to_owned())
    };
    passwd.lines().filter_map(person).collect()
}

/// Recommends the Unix socket where the machine has other users.
fn users_text(others: &[String]) -> String {
    let mut names: Vec<&str> = others.iter().map(String::as_str).take(3).collect();
    if others.len() > names.len() {
        names.push("others");
    }
    if names.is_empty() {
        return String::new();
    }
    format!(
        "This machine has other users ({}), who may read everything over the HTTP interface's port.\n              \
         -> if they should not, write `loopback = \"none\"` in [northbound]; the Unix socket api.sock, which admits root,\n              \
         Rosemary's user and the group rosemary, and tokens still work\n",
        names.join(", ")
    )
}

/// The report on one limit.
#[derive(Debug, Serialize)]
struct LimitReport {
    limit: &'static str,
    #[serde(flatten)]
    enforced_by: EnforcedBy,
}

impl LimitReport {
    /// Whether the monitor must measure processes to enforce the limit.
    fn needs_monitor(&self) -> bool {
        matches!(self.enforced_by, EnforcedBy::Monitor { .. } | EnforcedBy::GroupWithoutSwap { .. })
    }
}

fn limit_reports(enforcement: &Enforcement) -> [LimitReport; Limit::ALL.len()] {
    Limit::ALL.map(|limit| LimitReport {
        limit: limit.name(),
        enforced_by: enforcement.enforced_by(limit),
    })
}

/// Formats each limit with its default value and what enforces it. The remedy depends on whether root calls.
fn limits_text(all: &[LimitReport], is_root: bool) -> String {
    let mut text = String::from("The limits of an app, with their default values:\n");
    let defaults = Limits::default();
    let mut reasons: Vec<&str> = Vec::new();
    for (LimitReport { limit, enforced_by }, of) in all.iter().zip(Limit::ALL) {
        let how = match enforced_by {
            EnforcedBy::Group { version } => {
                format!("by a cgroup (version {version}): cannot be exceeded")
            }
            EnforcedBy::GroupWithoutSwap { version } => format!(
                "by a cgroup (version {version}), and setrlimit; /tmp in swap is NOT counted: \
                 boot with swapaccount=1"
            ),
            EnforcedBy::Process => "by setrlimit: cannot be exceeded".to_owned(),
            EnforcedBy::Rosemary => "by Rosemary: the excess is refused or dropped".to_owned(),
            EnforcedBy::Monitor { why } => {
                if !reasons.contains(&why.as_str()) {
                    reasons.push(why);
                }
                match of {
                    Limit::Memory => {
                        "by MEASURING, up to 50 times a second: an app above it is killed; between two \
                         measurements setrlimit limits the address space to twice the limit, but NOT page \
                         tables, which may take four times the limit; names of missing files are NOT counted"
                    }
                    _ => "by MEASURING twice a second: an app above it is killed",
                }
                .to_owned()
            }
        };
        let default = of.shown(defaults.of(of).hard);
        let _ = writeln!(text, "  {limit:<22} {default:<8} {how}"); // writing to a String cannot fail
    }
    for why in &reasons {
        let _ = writeln!(text, "              {why}");
    }
    if !reasons.is_empty() {
        let user = if is_root { "" } else { "--user " };
        let _ = writeln!(
            text,
            "              -> start Rosemary as a systemd service with Delegate=yes; to try it, type: \
             systemd-run {user}--scope -p Delegate=yes rosemary up"
        );
    }
    text
}

fn mechanism_reports(report: &Report) -> Vec<MechanismReport<'_>> {
    let gaps = report.gaps();
    let one = |mechanism: Mechanism| {
        let found = report.findings.iter().find(|it| it.mechanism == mechanism);
        let why = match found.map(|it| &it.state) {
            Some(MechanismState::On | MechanismState::Granted) => None,
            Some(MechanismState::Missing { why }) => Some(why.as_str()),
            None => Some("the probe ended before it"),
        };
        let is_gap = gaps.iter().any(|(gap, _)| *gap == mechanism);
        let state = match why {
            None => "on",
            Some(_) if is_gap => "missing",
            Some(_) => "not needed",
        };
        MechanismReport { mechanism, state, why, what_to_do: is_gap.then(|| what_to_do(mechanism)) }
    };
    Mechanism::ALL.into_iter().map(one).collect()
}

/// Returns an operator's remedy for a gap.
fn what_to_do(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::UserNamespace
        | Mechanism::User
        | Mechanism::ProcessNamespace
        | Mechanism::MountNamespace
        | Mechanism::NetworkNamespace
        | Mechanism::IpcNamespace
        | Mechanism::HostNameNamespace
        | Mechanism::CgroupNamespace => {
            "run as root outside of a container; or, without root, allow user namespaces: \
             sysctl user.max_user_namespaces=10000; on Debian also \
             kernel.unprivileged_userns_clone=1, on Ubuntu also \
             kernel.apparmor_restrict_unprivileged_userns=0"
        }
        Mechanism::Root => "it requires a mount namespace and Linux 5.12 or newer",
        Mechanism::LandlockFiles | Mechanism::LandlockTcp | Mechanism::LandlockScopes => {
            "it requires Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and landlock in the list in \
             /sys/kernel/security/lsm: boot with lsm=landlock,... before that list"
        }
        Mechanism::SystemCalls => "it requires a Linux with CONFIG_SECCOMP_FILTER",
        Mechanism::CallReports => {
            "it requires Linux 5.0 or newer, and that Rosemary does not itself run under a seccomp filter \
             with a listener, as in some containers"
        }
        Mechanism::Limits => "raise the hard limits of the user who starts Rosemary: ulimit -H",
        Mechanism::Environment
        | Mechanism::Descriptors
        | Mechanism::Capabilities
        | Mechanism::NoNewPrivileges
        | Mechanism::NotDumpable => "this should not happen on Linux 5.9 or newer: report it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persons_who_can_log_in_are_named() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/usr/sbin/nologin\n\
                      ann:x:1000:1000::/home/ann:/bin/bash\nbob:x:1001:1001::/home/bob:/bin/zsh\n\
                      web:x:1002:1002::/srv:/usr/sbin/nologin\nnobody:x:65534:65534::/:/bin/sh\nmalformed\n";
        assert_eq!(other_users(passwd, &[0, 1000]), ["bob"]);
        assert_eq!(users_text(&[]), "");
        let many: Vec<String> = ["a", "b", "c", "d"].map(String::from).into();
        let text = users_text(&many);
        assert!(
            text.contains("(a, b, c, others)") && text.contains("loopback = \"none\""),
            "{text}"
        );
    }

    #[test]
    fn limit_without_cgroup_shows_reason_once() {
        let enforcement = Enforcement::without_groups("there are none");
        let limits = limit_reports(&enforcement);
        let text = limits_text(&limits, true);
        assert!(text.contains("memory                 512 MiB  by MEASURING"), "{text}");
        assert_eq!(text.matches("there are none").count(), 1, "{text}");
        assert_eq!(text.matches("Delegate=yes").count(), 2, "{text}");
        assert!(text.contains("systemd-run --scope"), "{text}");
        let text = limits_text(&limits, false);
        assert!(
            text.contains("systemd-run --user --scope"),
            "a user other than root has no other remedy: {text}"
        );
    }

    #[test]
    fn missing_mechanism_has_a_remedy() {
        let report = Report::default();
        let reports = mechanism_reports(&report);
        assert_eq!(reports.len(), Mechanism::ALL.len());
        assert!(reports.iter().all(|it| it.state == "missing" && it.what_to_do.is_some()));
    }
}
