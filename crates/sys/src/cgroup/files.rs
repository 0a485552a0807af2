//! Reads and writes the files of a group in the formats of both versions.
//!
//! | | version 1 | version 2 |
//! | --- | --- | --- |
//! | memory | `memory.limit_in_bytes`, with swap `memory.memsw.limit_in_bytes`, without `memory.swappiness` | `memory.max`, `memory.swap.max` |
//! | used | `memory.usage_in_bytes`, `memory.oom_control` | `memory.current`, `memory.events` |
//! | processor | `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.shares` | `cpu.max`, `cpu.weight` |
//! | used | `cpuacct.usage`, ns | `cpu.stat`: `usage_usec` |
//! | tasks | `pids.max`, `pids.events` | the same |
//!
//! `memory.high` is not used: above it the system slows a program down silently, and a soft limit of Rosemary only sends
//! an alert.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use super::{Bounds, Controller, GroupUsage, LEAST_QUOTA, PERIOD};

/// The processes in a group. A number that is written there moves that process into the group.
pub(super) const PROCESSES: &str = "cgroup.procs";

/// Version 2: the controllers that a group can delegate.
pub(super) const AVAILABLE: &str = "cgroup.controllers";

/// Version 2: the controllers that a group delegates to groups below.
const DELEGATED: &str = "cgroup.subtree_control";

/// Version 1: processor time per period, and the period, in microseconds.
const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD_FILE: &str = "cpu.cfs_period_us";

/// The limit of swap: in version 1 of memory and swap together, in version 2 of swap alone.
const SWAP_V1: &str = "memory.memsw.limit_in_bytes";
const SWAP_V2: &str = "memory.swap.max";

/// The shares in version 1 for a weight of 100.
const SHARES: u64 = 1024;

/// The version of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// Sets the limit of `controller` in the group `dir`. If a group above has a lower limit, returns a text that says so.
pub(super) fn limit(
    version: Version,
    controller: Controller,
    dir: &Path,
    bounds: &Bounds,
) -> io::Result<Option<String>> {
    let mut lower = None;
    match (controller, version) {
        (Controller::Memory, Version::V1) => {
            let most = bounds.memory.map_or("-1".to_owned(), |most| most.to_string());
            write(dir, "memory.limit_in_bytes", &most)?;
            // The sum of memory and swap gets the same limit, otherwise the group would swap instead. Where swap is
            // not counted, the group must not swap at all.
            if bounds.memory.is_some() && !counts_swap(version, dir) {
                allow_absent(write(dir, "memory.swappiness", "0"))?;
            }
            allow_absent(write(dir, SWAP_V1, &most))?;
        }
        (Controller::Memory, Version::V2) => {
            let most = bounds.memory.map_or("max".to_owned(), |most| most.to_string());
            write(dir, "memory.max", &most)?;
            let swap = if bounds.memory.is_some() { "0" } else { "max" };
            allow_absent(write(dir, SWAP_V2, swap))?;
        }
        (Controller::Cpu, Version::V1) => {
            let period = PERIOD.as_micros().to_string();
            let quota = quota_us(bounds).map_or("-1".to_owned(), |quota| quota.to_string());
            write(dir, PERIOD_FILE, &period)?;
            match write(dir, QUOTA, &quota) {
                // Linux refuses a quota above that of a group above. Without one, the quota of the group above applies.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    write(dir, QUOTA, "-1")?;
                    lower = Some(quota_above(dir));
                }
                written => written?,
            }
            set_weight(version, dir, bounds.weight)?;
        }
        (Controller::Cpu, Version::V2) => {
            let quota = quota_us(bounds).map_or("max".to_owned(), |quota| quota.to_string());
            write(dir, "cpu.max", &format!("{quota} {}", PERIOD.as_micros()))?;
            set_weight(version, dir, bounds.weight)?;
        }
        (Controller::Pids, _) => {
            let most = bounds.tasks.map_or("max".to_owned(), |most| most.to_string());
            write(dir, "pids.max", &most)?;
        }
    }
    Ok(lower)
}

/// Whether the memory limit of the group `dir` also limits swap.
pub(super) fn counts_swap(version: Version, dir: &Path) -> bool {
    let file = match version {
        Version::V1 => SWAP_V1,
        Version::V2 => SWAP_V2,
    };
    dir.join(file).exists()
}

/// Version 1: a text with the lowest visible processor quota of the groups above `dir`.
fn quota_above(dir: &Path) -> String {
    let quota = |dir: &Path| {
        let quota = number(dir, QUOTA).ok()?; // "-1" for none
        let processors = number(dir, PERIOD_FILE).ok().filter(|period| *period > 0)?;
        Some((quota * 1_000 / processors, dir.display().to_string()))
    };
    match dir.ancestors().skip(1).filter_map(quota).min() {
        Some((thousandths, dir)) => {
            let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
            format!("{dir} has {whole}.{part:03} processors for all that is in it")
        }
        None => "a group above has less for all that is in it".to_owned(),
    }
}

/// Microseconds of processor time per period.
fn quota_us(bounds: &Bounds) -> Option<u64> {
    let period = u64::try_from(PERIOD.as_micros()).expect("10,000");
    let least = u64::try_from(LEAST_QUOTA.as_micros()).expect("1,000");
    bounds.cpu.map(|thousandths| (period.saturating_mul(thousandths) / 1_000).max(least))
}

/// Sets the share of contended processors of the group `dir`, where 100 is the default; 0 for the default.
pub(super) fn set_weight(version: Version, dir: &Path, weight: u32) -> io::Result<()> {
    let weight: u64 = if weight == 0 { 100 } else { weight.into() };
    match version {
        Version::V1 => {
            let shares = (SHARES * weight / 100).clamp(2, 262_144);
            write(dir, "cpu.shares", &shares.to_string())
        }
        Version::V2 => write(dir, "cpu.weight", &weight.clamp(1, 10_000).to_string()),
    }
}

/// Reads the usage of the group `dir` for `controller`. `times`: the directory with the processor time of version 1.
pub(super) fn usage(
    version: Version,
    controller: Controller,
    dir: &Path,
    times: Option<&Path>,
) -> io::Result<GroupUsage> {
    let mut used = GroupUsage::default();
    match (controller, version) {
        (Controller::Memory, Version::V1) => {
            used.memory = Some(number(dir, "memory.usage_in_bytes")?);
            used.memory_kills = field(dir, "memory.oom_control", "oom_kill")?;
        }
        (Controller::Memory, Version::V2) => {
            used.memory = Some(number(dir, "memory.current")?);
            used.memory_kills = field(dir, "memory.events", "oom_kill")?;
        }
        (Controller::Cpu, Version::V1) => {
            let ns = times.map(|times| number(times, "cpuacct.usage")).transpose()?;
            used.cpu = ns.map(Duration::from_nanos);
        }
        (Controller::Cpu, Version::V2) => {
            used.cpu = Some(Duration::from_micros(field(dir, "cpu.stat", "usage_usec")?));
        }
        (Controller::Pids, _) => used.refused_tasks = field(dir, "pids.events", "max")?,
    }
    Ok(used)
}

/// Version 2: makes `dir` delegate `controllers` to groups below.
pub(super) fn delegate(
    dir: &Path,
    controllers: impl Iterator<Item = Controller>,
) -> io::Result<()> {
    let delegated = fs::read_to_string(dir.join(DELEGATED))?;
    let missing: Vec<String> = controllers
        .filter(|it| !delegated.split_whitespace().any(|name| name == it.name()))
        .map(|it| format!("+{}", it.name()))
        .collect();
    if missing.is_empty() { Ok(()) } else { write(dir, DELEGATED, &missing.join(" ")) }
}

/// Version 2: stops `dir` from delegating `controllers`, except for those that groups below still use.
pub(super) fn delegate_nothing(dir: &Path, controllers: impl Iterator<Item = Controller>) {
    for controller in controllers {
        let _ = write(dir, DELEGATED, &format!("-{}", controller.name()));
    }
}

/// Writes an existing file.
pub(super) fn write(dir: &Path, file: &str, text: &str) -> io::Result<()> {
    let path = dir.join(file);
    let written = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| named(file, &error))
}

fn allow_absent(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

pub(super) fn read(dir: &Path, file: &str) -> io::Result<String> {
    fs::read_to_string(dir.join(file)).map_err(|error| named(file, &error))
}

/// Reads a file that consists of one number.
fn number(dir: &Path, file: &str) -> io::Result<u64> {
    read(dir, file)?.trim().parse().map_err(|_| strange(file))
}

/// Reads the number of `key` in a file of keys and numbers.
fn field(dir: &Path, file: &str, key: &str) -> io::Result<u64> {
    let text = read(dir, file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| strange(file))
}

fn named(file: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{file}: {error}"))
}

fn strange(file: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{file} has another format than cgroups(7) says"),
    )
}
