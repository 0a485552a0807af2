//! Finds out what enforces each limit on this machine: a cgroup, setrlimit(2), or the monitor.

use sdk::Limit;
use serde::{Deserialize, Serialize};
use supervisor::usage::meter::Meter;
use sys::cgroup::{Bounds, Controller, Tree};
use sys::process::PidNamespace;
use sys::sandbox;

use config::{Bound, Limits, NO_LIMIT};

/// The kernel's share of contended processors, where an app has 100. All apps' packets pass through the kernel.
const KERNEL_WEIGHT: u32 = 400;

/// How far the setrlimit(2) limit of tasks lies above that of the group, where a group counts tasks. The group's limit
/// must be met first, because only the group counts what it refused.
const TASKS_ABOVE_GROUP: u64 = 16;

/// What enforces a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum EnforcedBy {
    /// A cgroup, for all processes of the program together. The limit cannot be exceeded.
    Group {
        /// The version of cgroups.
        version: u8,
    },
    /// A cgroup, for memory that is not in swap. For swap, setrlimit(2) limits private memory and address space, and
    /// shared memory without a file is refused. Twice a second the monitor adds up the app's memory and swap, and kills
    /// an app that exceeds its limit. It does not see the parts of `/tmp` that are in swap.
    GroupWithoutSwap {
        /// The version of cgroups.
        version: u8,
    },
    /// setrlimit(2), for each process. The limit cannot be exceeded.
    Process,
    /// Rosemary itself, which refuses or drops what exceeds the limit.
    Rosemary,
    /// The monitor, which kills an app that exceeds its limit. It checks processor time twice a second, and memory 5 to 50
    /// times, more often near the limit. Between two checks setrlimit(2) limits the address space to twice the limit,
    /// beyond the program, its objects and its rings. Page tables are not part of that: a page far from others needs 8 KiB
    /// of them, so they take at most four times the limit.
    Monitor {
        /// Why no cgroup enforces the limit.
        why: String,
    },
}

/// How limits are enforced on this machine.
#[derive(Debug)]
pub struct Enforcement {
    tree: Tree,
    /// The bytes of rings that an app maps.
    rings: u64,
}

impl Enforcement {
    /// Finds out which cgroups work, and removes groups that a killed monitor left.
    pub fn find() -> Self {
        Self { tree: Tree::find(), rings: 0 }
    }

    /// Uses no cgroups, for the reason `why`.
    pub fn without_groups(why: &str) -> Self {
        Self { tree: Tree::none(why), rings: 0 }
    }

    /// Allows for at most `rings` bytes of rings that the kernel makes for an app.
    pub(crate) fn with_rings(self, rings: u64) -> Self {
        Self { rings, ..self }
    }

    /// The most bytes of rings that an app maps. They do not count as the app's memory.
    pub(crate) fn rings(&self) -> u64 {
        self.rings
    }

    /// What enforces the limit on `what`.
    pub fn enforced_by(&self, what: Limit) -> EnforcedBy {
        let controller = match what {
            Limit::Memory => Controller::Memory,
            Limit::Cpu => Controller::Cpu,
            Limit::Threads => Controller::Pids,
            Limit::Descriptors => return EnforcedBy::Process,
            Limit::FlowMods | Limit::PacketOuts | Limit::Requests | Limit::Log | Limit::Queue => {
                return EnforcedBy::Rosemary;
            }
        };
        match self.tree.place(controller) {
            Some((version, _)) if what == Limit::Memory && !self.tree.counts_swap() => {
                EnforcedBy::GroupWithoutSwap { version }
            }
            Some((version, _)) => EnforcedBy::Group { version },
            None if what == Limit::Threads => EnforcedBy::Process,
            None => {
                let missing = self.tree.missing().iter().find(|(it, _)| *it == controller);
                let why = missing.map_or_else(String::new, |(_, why)| why.clone());
                EnforcedBy::Monitor { why }
            }
        }
    }

    /// Whether cgroups have this controller.
    pub fn has(&self, controller: Controller) -> bool {
        self.tree.has(controller)
    }

    /// Makes a meter for an app with these limits.
    pub(crate) fn meter(&self, limits: Limits) -> Meter {
        let by_monitor = |what: &Limit| {
            matches!(
                self.enforced_by(*what),
                EnforcedBy::Monitor { .. } | EnforcedBy::GroupWithoutSwap { .. }
            )
        };
        Meter::new(limits, Limit::ALL.into_iter().filter(by_monitor).collect())
    }

    /// The cgroups of the programs.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The limits of an app's group, where its zone is set `apart`.
    pub(crate) fn bounds(limits: &Limits, apart: PidNamespace) -> Bounds {
        let hard = |what| Some(limits.of(what).hard).filter(|hard| *hard != NO_LIMIT);
        let others = match apart {
            PidNamespace::No => 0,
            // The init process of the zone.
            PidNamespace::ByParent => 1,
            // That, and the process outside that waits for it.
            PidNamespace::ByItself => 2,
        };
        Bounds {
            memory: hard(Limit::Memory),
            cpu: hard(Limit::Cpu),
            // At least one more than its own: before the zone changes its user, a child tries what cannot be undone.
            tasks: hard(Limit::Threads).map(|threads| threads.max(2).saturating_add(others)),
            weight: 100,
        }
    }

    /// The limits of the kernel's group. Without limits of the operator there are none, since a throttled kernel would stop the
    /// network. The kernel itself limits its threads.
    pub(crate) fn kernel_bounds(limits: &Limits) -> Bounds {
        let bounds = Self::bounds(limits, PidNamespace::No);
        Bounds { tasks: None, weight: KERNEL_WEIGHT, ..bounds }
    }

    /// The setrlimit(2) limits of an app.
    pub(crate) fn process_limits(&self, limits: &Limits) -> sandbox::Limits {
        let Bound { hard: threads, .. } = limits.of(Limit::Threads);
        let in_group = self.tree.has(Controller::Pids);
        sandbox::Limits {
            descriptors: limits.of(Limit::Descriptors).hard,
            // The smallest group has two tasks, so for a single thread setrlimit(2) alone is exact.
            threads: if in_group && threads > 1 {
                threads.saturating_add(TASKS_ABOVE_GROUP)
            } else {
                threads
            },
            // With this limit, shared memory without a file is refused. The monitor's checks see mapped files of /tmp.
            memory: (!self.tree.counts_swap()).then(|| self.process_memory(limits)),
            ..control::zone::DEFAULT_LIMITS
        }
    }

    /// Limits the memory of an app where no group counts it.
    ///
    /// Beside the memory, the address space holds libraries, stacks, the allocator's reserve, and the rings, which are not
    /// the app's memory.
    fn process_memory(&self, limits: &Limits) -> sandbox::Memory {
        let data = limits.of(Limit::Memory).hard;
        let address_space = data.saturating_mul(2).saturating_add(self.rings);
        sandbox::Memory { data, address_space }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;

    #[test]
    fn without_groups_setrlimit_and_monitor_enforce() {
        let (enforcement, limits) = (Enforcement::without_groups("not here"), Limits::default());
        let monitor = EnforcedBy::Monitor { why: "not here".into() };
        assert_eq!(enforcement.enforced_by(Limit::Memory), monitor);
        assert_eq!(enforcement.enforced_by(Limit::Cpu), monitor);
        assert_eq!(enforcement.enforced_by(Limit::Threads), EnforcedBy::Process);
        let set = enforcement.process_limits(&limits);
        assert_eq!((set.threads, set.descriptors), (64, 512));
        let memory = sandbox::Memory { data: 512 << 20, address_space: 1 << 30 };
        assert_eq!(set.memory, Some(memory));
    }

    #[test]
    fn address_space_includes_rings() {
        let text = "[[app]]\nname = \"a\"\nlimits = { memory = \"8 MiB\" }";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let least = config.app("a").unwrap().limits;
        let largest = 2 * 16 * ((4 << 20) + 4096);
        let enforcement = Enforcement::without_groups("not here").with_rings(largest);
        let memory = sandbox::Memory { data: 8 << 20, address_space: (16 << 20) + largest };
        assert_eq!(enforcement.process_limits(&least).memory, Some(memory));
    }

    #[test]
    fn group_has_the_hard_limits() {
        let bounds = Enforcement::bounds(&Limits::default(), PidNamespace::ByParent);
        assert_eq!(
            (bounds.memory, bounds.cpu, bounds.tasks),
            (Some(512 << 20), Some(1_000), Some(65))
        );
        let text = "[[app]]\nname = \"a\"\nlimits = { threads = 1 }";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let one = config.app("a").unwrap().limits;
        assert_eq!(
            Enforcement::bounds(&one, PidNamespace::ByParent).tasks,
            Some(3),
            "init, the zone, and the child that tries"
        );
        assert_eq!(Enforcement::without_groups("").process_limits(&one).threads, 1);
        let kernel = Enforcement::kernel_bounds(&Limits::of_kernel());
        assert_eq!((kernel.memory, kernel.cpu, kernel.tasks), (None, None, None));
        let text = "[supervision.kernel]\nlimits = { memory = \"1 GiB\" }";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let kernel = Enforcement::kernel_bounds(&config.supervision.kernel_limits);
        assert_eq!((kernel.memory, kernel.weight), (Some(1 << 30), KERNEL_WEIGHT));
        let none = Enforcement::bounds(&Limits::none(), PidNamespace::No);
        assert_eq!((none.memory, none.cpu, none.tasks), (None, None, None));
    }
}
