//! `rosemary doctor`: what this machine lets Rosemary put around an app, found out by trying.
//!
//! A zone's own program confines itself as it would for an app, as the user who asks, and says what
//! could be done. So what is told here is what an app started now would get. For its limits a group is made
//! and removed.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use config::{Limit, Limits};
use monitor::usage::{EnforcedBy, Enforcement};
use monitor::{installation, sandbox_probe};
use serde::Serialize;
use sys::sandbox::{Mechanism, Report, State};

use crate::say;

/// The options of `rosemary doctor`.
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
    /// `on`, `missing`, or `not needed` if something else that is on does the same.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_to_do: Option<&'static str>,
}

/// Tries, and tells; 1 if there are gaps.
///
/// # Errors
/// The program of zones is missing or cannot be started.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let zone = installation::program("rosemary-zone", &installation::own_dir()?)?;
    let report = sandbox_probe::run(&zone).context("cannot try to confine a process")?;
    let told = tell(&report);
    let gaps = report.gaps().len();
    let enforcement = Enforcement::find();
    let kept = Limit::ALL
        .map(|limit| KeptLimit { limit: limit.name(), kept: enforcement.enforced_by(limit) });
    let hidden = sys::process::read_other().err().map(|error| error.to_string());
    if args.json {
        #[derive(Serialize)]
        struct Doctor<'a> {
            full: bool,
            zones: Vec<MechanismReport<'a>>,
            limits: &'a [KeptLimit],
            #[serde(skip_serializing_if = "Option::is_none")]
            processes_hidden: &'a Option<String>,
        }
        let doctor =
            Doctor { full: gaps == 0, zones: told, limits: &kept, processes_hidden: &hidden };
        say::data(format_args!("{}\n", serde_json::to_string_pretty(&doctor)?))?;
    } else {
        let mut text = String::from("The wall around an app, if you started Rosemary now:\n");
        let mut advice = None;
        for it in &told {
            let state =
                if it.state == "missing" { "MISSING".to_owned() } else { it.state.to_owned() };
            // A String takes everything.
            let _ = writeln!(text, "  {state:<11} {}", it.mechanism);
            if let Some(why) = it.why {
                let _ = writeln!(text, "              {why}");
            }
            // One piece of advice is good for several, and said once.
            if let Some(what) = it.what_to_do.filter(|what| advice.replace(*what) != Some(*what)) {
                let _ = writeln!(text, "              -> {what}");
            }
        }
        let _ = match gaps {
            0 => writeln!(text, "It has no gaps: `require = \"full\"` in [zones] will start."),
            1 => writeln!(text, "It has a gap."),
            gaps => writeln!(text, "It has {gaps} gaps."),
        };
        text.push_str(&limits_told(&kept, sys::process::is_root()));
        if let Some(why) = hidden.filter(|_| kept.iter().any(KeptLimit::is_looked_at)) {
            let _ = writeln!(
                text,
                "  Rosemary CANNOT LOOK at apps ({why}), so it does not end those above a limit\n              \
                 -> mount /proc without hidepid, or run Rosemary as root"
            );
        }
        say::data(text)?;
    }
    Ok(if gaps == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How a limit is kept.
#[derive(Debug, Serialize)]
struct KeptLimit {
    limit: &'static str,
    #[serde(flatten)]
    kept: EnforcedBy,
}

impl KeptLimit {
    /// Whether the monitor has to look at processes for it.
    fn is_looked_at(&self) -> bool {
        matches!(self.kept, EnforcedBy::Monitor { .. } | EnforcedBy::GroupWithoutSwap { .. })
    }
}

/// Formats the mechanism behind each limit, and an app's default limits; for root or another user.
fn limits_told(all: &[KeptLimit], is_root: bool) -> String {
    let mut text = String::from("The limits on an app, with what it has where nothing is said:\n");
    let defaults = Limits::default();
    let mut reasons: Vec<&str> = Vec::new();
    for (KeptLimit { limit, kept }, of) in all.iter().zip(Limit::ALL) {
        let how = match kept {
            EnforcedBy::Group { version } => {
                format!("by a cgroup (version {version}): cannot be passed")
            }
            EnforcedBy::GroupWithoutSwap { version } => format!(
                "by a cgroup (version {version}), and setrlimit; /tmp in swap is NOT counted: \
                 boot with swapaccount=1"
            ),
            EnforcedBy::Process => "by setrlimit: cannot be passed".to_owned(),
            EnforcedBy::Rosemary => "by Rosemary: more is refused or left out".to_owned(),
            EnforcedBy::Monitor { why } => {
                if !reasons.contains(&why.as_str()) {
                    reasons.push(why);
                }
                match of {
                    Limit::Memory => {
                        "by LOOKING, up to 50 times a second: who is above is ended; setrlimit bounds address \
                         space by twice that meanwhile, but NOT page tables, which may be four times that; names \
                         of files that are not there are NOT counted"
                    }
                    _ => "by LOOKING twice a second: who is above is ended",
                }
                .to_owned()
            }
        };
        let default = of.shown(defaults.of(of).hard);
        let _ = writeln!(text, "  {limit:<22} {default:<8} {how}"); // a String takes everything
    }
    for why in &reasons {
        let _ = writeln!(text, "              {why}");
    }
    if !reasons.is_empty() {
        let user = if is_root { "" } else { "--user " };
        let _ = writeln!(
            text,
            "              -> start Rosemary as a service of systemd with Delegate=yes, or for a try as \
             systemd-run {user}--scope -p Delegate=yes rosemary up"
        );
    }
    text
}

fn tell(report: &Report) -> Vec<MechanismReport<'_>> {
    let gaps = report.gaps();
    let one = |mechanism: Mechanism| {
        let found = report.findings.iter().find(|it| it.mechanism == mechanism);
        let why = match found.map(|it| &it.state) {
            Some(State::On | State::Granted) => None,
            Some(State::Missing { why }) => Some(why.as_str()),
            None => Some("it was not got to"),
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
             sysctl user.max_user_namespaces=10000, where there are these also \
             kernel.unprivileged_userns_clone=1 (Debian), \
             kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
        }
        Mechanism::Root => "it takes a mount namespace, and Linux 5.12 or newer",
        Mechanism::LandlockFiles | Mechanism::LandlockTcp | Mechanism::LandlockScopes => {
            "it takes Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and landlock in the list of \
             /sys/kernel/security/lsm: boot with lsm=landlock,... in front of that list"
        }
        Mechanism::SystemCalls => "it takes a Linux with CONFIG_SECCOMP_FILTER",
        Mechanism::CallReports => {
            "it takes Linux 5.0 or newer, and that Rosemary is not itself behind a seccomp filter \
             with a listener, as of some containers"
        }
        Mechanism::Limits => "raise the hard limits of who starts Rosemary: ulimit -H",
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
    fn limit_that_nothing_better_keeps_is_told_with_its_reason_once() {
        let enforcement = Enforcement::without_groups("there are none");
        let kept = Limit::ALL
            .map(|limit| KeptLimit { limit: limit.name(), kept: enforcement.enforced_by(limit) });
        let text = limits_told(&kept, true);
        assert!(text.contains("memory                 512 MiB  by LOOKING"), "{text}");
        assert_eq!(text.matches("there are none").count(), 1, "{text}");
        assert_eq!(text.matches("Delegate=yes").count(), 2, "{text}");
        assert!(text.contains("systemd-run --scope"), "{text}");
        let text = limits_told(&kept, false);
        assert!(text.contains("systemd-run --user --scope"), "another user has no other: {text}");
    }

    #[test]
    fn each_gap_is_told_with_its_reason_and_what_to_do() {
        let report = Report::default();
        let told = tell(&report);
        assert_eq!(told.len(), Mechanism::ALL.len());
        assert!(told.iter().all(|it| it.state == "missing" && it.what_to_do.is_some()));
    }
}
