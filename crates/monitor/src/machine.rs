//! Finds the resources of this machine that sessions reserve, and makes the partition of processors.

use std::fs;
use std::path::Path;

use config::{Config, MOST_APPS};
use control::kernel::MAX_WORKERS;
use supervisor::sessions::Sessions;
use supervisor::sessions::admission::Machine;
use sys::cgroup::partition::{self, Partition};
use sys::sched::deadline;
use tracing::{info, warn};

use crate::error::StartError;
use crate::kernel_settings::KernelSettings;
use crate::options::Options;

/// More descriptors than this are not counted: Linux's default has no meaning as a number.
const MOST_DESCRIPTORS: u64 = 1 << 30;

/// Restores what a killed monitor left in the cpusets, and makes the partition that the operator wants.
///
/// # Errors
/// Why there is no partition although the operator wants one, as a phrase.
pub(crate) fn partition(options: &Options, config: &Config) -> Result<Option<Partition>, String> {
    if partition::restore_stale() {
        info!("restored the cpusets that a killed monitor had changed");
    }
    if !config.sessions.partition {
        return Ok(None);
    }
    let made = if options.unconfined || options.no_cgroups {
        Err("Rosemary was started without cgroups".to_owned())
    } else {
        Partition::new()
    };
    match made {
        Ok(partition) => {
            info!(processors = ?partition.processors(), "took processors for reserved threads alone");
            Ok(Some(partition))
        }
        Err(why) => {
            warn!(why, "reserved threads share their processors with all others");
            Err(why)
        }
    }
}

/// Finds the resources. `partition` has the processors of reserved threads, if they have some of their own.
pub(crate) fn find(
    settings: &KernelSettings,
    state_dir: &Path,
    partition: Option<&Option<Partition>>,
) -> Machine {
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let usable = u16::try_from(usable).unwrap_or(u16::MAX);
    let of_partition = partition.and_then(Option::as_ref).map(|it| it.processors().len());
    let of_partition = of_partition.and_then(|count| u16::try_from(count).ok());
    let disk = rustix::fs::statvfs(state_dir);
    let file_max = fs::read_to_string("/proc/sys/fs/file-max").unwrap_or_default();
    Machine {
        processors: of_partition.unwrap_or(usable),
        workers: settings.workers.unwrap_or(usable).min(MAX_WORKERS),
        memory: memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        storage: disk.map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize)),
        descriptors: file_max.trim().parse().unwrap_or(0).min(MOST_DESCRIPTORS),
        rings: settings.ring_bytes().saturating_mul(MOST_APPS as u64),
        tick: deadline::tick(),
    }
}

/// Admits the sessions of the configuration.
///
/// # Errors
/// [`StartError::Sessions`] at the place of the session that does not fit.
pub(crate) fn admit(machine: Machine, config: &Config) -> Result<Sessions, StartError> {
    Sessions::new(machine, config.sessions.clone()).map_err(|refusal| {
        let place = config.position_of("session", &refusal.session);
        StartError::Sessions(refusal.to_string()).at(place)
    })
}

/// The bytes of memory in `/proc/meminfo`, `proc_meminfo(5)`.
fn memory(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:       8 kB\n"), 8 << 10);
        assert_eq!(memory("MemTotal: many"), 0);
    }
}
