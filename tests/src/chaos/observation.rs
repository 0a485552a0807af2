//! Observes Rosemary and the switch, to compare them before and after a fault.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;
use cli::lab::Switch;
use cli::status::Report;
use control::operator::ProgramState;

use super::fault::Program;

/// Growth of resident memory above which a program counts as leaking, in KiB. The monitor reads the object of an app as
/// a whole, up to 20 MB in a debug build, and the allocator keeps memory that was free once.
const GROWTH_KIB: u64 = 64 << 10;

/// Additional descriptors above which a program counts as leaking them. Requests of the run itself are open now and then.
const GROWTH_DESCRIPTORS: usize = 3;

/// The state of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Of {
    /// Its process id, if it runs.
    pub(super) pid: Option<u32>,
    /// Whether it runs and is ready.
    pub(super) runs: bool,
    /// How often it was restarted.
    pub(super) restarts: u64,
    /// How it ended the last time.
    pub(super) last_exit: Option<String>,
}

/// Returns the state of every program, by name.
pub(super) fn programs(report: &Report) -> BTreeMap<String, Of> {
    let running = |state| state == ProgramState::Running;
    let kernel = &report.programs.kernel;
    let mut all = BTreeMap::from([(
        Program::Kernel.to_string(),
        Of {
            pid: kernel.pid,
            runs: running(kernel.state),
            restarts: kernel.restarts,
            last_exit: kernel.last_exit.clone(),
        },
    )]);
    all.extend(report.programs.services.iter().map(|service| {
        let of = Of {
            pid: service.pid,
            runs: running(service.state),
            restarts: service.restarts,
            last_exit: service.last_exit.clone(),
        };
        (format!("service {}", service.name), of)
    }));
    all.extend(report.programs.apps.iter().map(|app| {
        let of = Of {
            pid: app.pid,
            runs: running(app.state),
            restarts: app.restarts,
            last_exit: app.last_exit.clone(),
        };
        (format!("app {}", app.name), of)
    }));
    all
}

/// Whether a process runs and waits for something, as an app without packets does.
pub(super) fn is_idle(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // PID (NAME) STATE ...: the name may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The resources of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resources {
    descriptors: usize,
    resident_kib: u64,
}

impl Resources {
    /// Measures a process.
    ///
    /// # Errors
    /// It does not run.
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
        Ok(Self { descriptors, resident_kib: size.parse()? })
    }

    /// Returns how these exceed the resources at the start of the run, if they do.
    pub(super) fn growth(self, start: Self) -> Option<String> {
        if self.descriptors > start.descriptors + GROWTH_DESCRIPTORS {
            return Some(format!(
                "{} descriptors, {} at the start",
                self.descriptors, start.descriptors
            ));
        }
        (self.resident_kib > start.resident_kib + GROWTH_KIB).then(|| {
            format!(
                "{} KiB of resident memory, {} at the start",
                self.resident_kib, start.resident_kib
            )
        })
    }
}

/// Returns the flows that do not depend on traffic: those that drop packets, and the table-miss entry. Each is its
/// priority, match and actions.
///
/// # Errors
/// `ovs-ofctl` failed.
pub(super) fn lasting_flows(switch: &Switch<'_>) -> anyhow::Result<Vec<String>> {
    let mut flows: Vec<String> = switch
        .dump_flows()?
        .iter()
        .filter(|flow| flow.contains("actions=drop") || flow.contains("actions=CONTROLLER"))
        .filter_map(|flow| Some(flow[flow.find("priority=")?..].to_owned()))
        .collect();
    flows.sort_unstable();
    Ok(flows)
}
