//! Who keeps which limit on this machine, found out by trying.

use serde::{Deserialize, Serialize};
use sys::cgroup::{Bounds, Controller, Tree};
use sys::process::PidNamespace;
use sys::sandbox;
use zone::Limit;

use super::meter::Meter;
use crate::config::{Bound, Limits, NO_LIMIT};

/// What the kernel has of processors that others want too, where an app has 100: the packets of all go
/// through it.
const KERNELS_WEIGHT: u32 = 400;

/// The number of tasks is kept twice where groups count it: by the group, which tells of it, and by
/// setrlimit(2), so much above.
const SECOND_WALL: u64 = 16;

/// How a limit is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Kept {
    /// By the system, for all processes of the program together, so that it cannot be passed.
    Group {
        /// Of which version of cgroups.
        version: u8,
    },
    /// By a group, for memory that is not in swap. For swap, setrlimit(2) bounds private memory and address space, and
    /// shared memory without a file is refused. Twice a second the monitor adds up the app's memory and swap, and ends an
    /// app that is above its limit. It does not see the parts of `/tmp` that are in swap.
    GroupWithoutSwap {
        /// Of which version of cgroups.
        version: u8,
    },
    /// By the system, for each process, so that it cannot be passed: setrlimit(2).
    Process,
    /// By Rosemary itself: what is above it is refused or left out.
    Rosemary,
    /// By looking: the monitor ends an app that is above its limit. It looks at processor time twice a second, and at
    /// memory 5 to 50 times, more often near the limit. Between two looks setrlimit(2) bounds the address space by twice
    /// the limit, beyond the program, its objects and its rings. Page tables are not part of it: a page that lies far
    /// from others costs 8 KiB of these, so they come to four times the limit at most.
    Looking {
        /// Why there is no better.
        why: String,
    },
}

/// Who keeps the limits on this machine.
#[derive(Debug)]
pub struct Keeper {
    tree: Tree,
    /// Bytes of the rings that an app maps.
    rings: u64,
}

impl Keeper {
    /// Finds out, and removes groups that a killed monitor left.
    pub fn find() -> Self {
        Self { tree: Tree::find(), rings: 0 }
    }

    /// Without groups, for the reason `why`.
    pub fn without_groups(why: &str) -> Self {
        Self { tree: Tree::none(why), rings: 0 }
    }

    /// The same, for a kernel that makes at most `rings` bytes of rings for an app.
    pub(crate) fn with_rings(self, rings: u64) -> Self {
        Self { rings, ..self }
    }

    /// Most bytes of rings that an app maps. They are not the app's memory.
    pub(crate) fn rings(&self) -> u64 {
        self.rings
    }

    /// How the limit on `what` is kept.
    pub fn kept(&self, what: Limit) -> Kept {
        let controller = match what {
            Limit::Memory => Controller::Memory,
            Limit::Cpu => Controller::Cpu,
            Limit::Threads => Controller::Pids,
            Limit::Descriptors => return Kept::Process,
            Limit::FlowMods | Limit::PacketOuts | Limit::Requests | Limit::Log | Limit::Queue => {
                return Kept::Rosemary;
            }
        };
        match self.tree.place(controller) {
            Some((version, _)) if what == Limit::Memory && !self.tree.counts_swap() => {
                Kept::GroupWithoutSwap { version }
            }
            Some((version, _)) => Kept::Group { version },
            None if what == Limit::Threads => Kept::Process,
            None => {
                let missing = self.tree.missing().iter().find(|(it, _)| *it == controller);
                let why = missing.map_or_else(String::new, |(_, why)| why.clone());
                Kept::Looking { why }
            }
        }
    }

    /// A meter for an app with these limits.
    pub(crate) fn meter(&self, limits: Limits) -> Meter {
        let looks = |what: &Limit| {
            matches!(self.kept(*what), Kept::Looking { .. } | Kept::GroupWithoutSwap { .. })
        };
        Meter::new(limits, Limit::ALL.into_iter().filter(looks).collect())
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What an app's group is kept below, whose zone is set `apart`.
    pub(crate) fn bounds(limits: &Limits, apart: PidNamespace) -> Bounds {
        let hard = |what| Some(limits.of(what).hard).filter(|hard| *hard != NO_LIMIT);
        let others = match apart {
            PidNamespace::No => 0,
            PidNamespace::ByParent => 1, // its init
            PidNamespace::ByItself => 2, // and who waits for that outside
        };
        Bounds {
            memory: hard(Limit::Memory),
            cpu: hard(Limit::Cpu),
            // One at least that is not its own: before it has its user, it tries in a child what it
            // could not undo.
            tasks: hard(Limit::Threads).map(|threads| threads.max(2).saturating_add(others)),
            weight: 100,
        }
    }

    /// What the kernel's group is kept below: nothing, as the network would stand still.
    pub(crate) fn kernels_bounds() -> Bounds {
        Bounds { weight: KERNELS_WEIGHT, ..Bounds::default() }
    }

    /// What setrlimit(2) is told for an app.
    pub(crate) fn process_limits(&self, limits: &Limits) -> sandbox::Limits {
        let Bound { hard: threads, .. } = limits.of(Limit::Threads);
        let in_group = self.tree.has(Controller::Pids);
        sandbox::Limits {
            descriptors: limits.of(Limit::Descriptors).hard,
            // A group of two, which is the least, would let a single one make another.
            threads: if in_group && threads > 1 {
                threads.saturating_add(SECOND_WALL)
            } else {
                threads
            },
            // With this, what is shared and of no file is refused; what of /tmp is mapped is seen by looking.
            memory: (!self.tree.counts_swap()).then(|| self.process_memory(limits)),
            ..zone::sandbox::LIMITS
        }
    }

    /// Bounds the memory of an app where no group counts it. The address space has room for libraries, stacks of
    /// threads and the allocator's reserve beside the memory, and for the rings, which are not the app's memory.
    fn process_memory(&self, limits: &Limits) -> sandbox::Memory {
        let data = limits.of(Limit::Memory).hard;
        let address_space = data.saturating_mul(2).saturating_add(self.rings);
        sandbox::Memory { data, address_space }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn without_groups_setrlimit_keeps_what_it_can_and_the_rest_is_looked_at() {
        let (keeper, limits) = (Keeper::without_groups("not here"), Limits::default());
        let looking = Kept::Looking { why: "not here".into() };
        assert_eq!(keeper.kept(Limit::Memory), looking);
        assert_eq!(keeper.kept(Limit::Cpu), looking);
        assert_eq!(keeper.kept(Limit::Threads), Kept::Process);
        let set = keeper.process_limits(&limits);
        assert_eq!((set.threads, set.descriptors), (64, 512));
        let memory = sandbox::Memory { data: 512 << 20, address_space: 1 << 30 };
        assert_eq!(set.memory, Some(memory));
    }

    #[test]
    fn address_space_has_room_for_the_rings_beside_the_memory() {
        let text = "[[app]]\nname = \"a\"\nlimits = { memory = \"8 MiB\" }";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let least = config.app("a").unwrap().limits.clone();
        let largest = 2 * 16 * ((4 << 20) + 4096);
        let keeper = Keeper::without_groups("not here").with_rings(largest);
        let memory = sandbox::Memory { data: 8 << 20, address_space: (16 << 20) + largest };
        assert_eq!(keeper.process_limits(&least).memory, Some(memory));
    }

    #[test]
    fn bounds_of_a_group_are_the_hard_limits() {
        let bounds = Keeper::bounds(&Limits::default(), PidNamespace::ByParent);
        assert_eq!(
            (bounds.memory, bounds.cpu, bounds.tasks),
            (Some(512 << 20), Some(1_000), Some(65))
        );
        let text = "[[app]]\nname = \"a\"\nlimits = { threads = 1 }";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let one = config.app("a").unwrap().limits.clone();
        assert_eq!(
            Keeper::bounds(&one, PidNamespace::ByParent).tasks,
            Some(3),
            "init, it, and a try"
        );
        assert_eq!(Keeper::without_groups("").process_limits(&one).threads, 1);
        let none = Keeper::bounds(&Limits::none(), PidNamespace::No);
        assert_eq!((none.memory, none.cpu, none.tasks), (None, None, None));
    }
}
