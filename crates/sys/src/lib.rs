//! The operating system as Rosemary needs it, behind safe functions.
//!
//! This is the only crate of the workspace that may contain `unsafe` (the C ABI's module in
//! `sdk` aside): what must be proven by hand is proven here, once, and the crates above forbid it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`shm`] | memfds, sealed against resizing and, for the reader's side, against writing |
//! | [`ring`] | the up and down rings between the kernel and a zone, and their commit protocol |
//! | [`doorbell`] | a pipe that wakes a peer that sleeps |
//! | [`cgroup`] | groups of processes with limits, in both of Linux' versions |
//! | [`channel`] | control sockets: one typed message per packet, descriptors passed along |
//! | [`packets`] | packets of bytes between a zone and a service |
//! | [`clock`] | the time that applications are told |
//! | [`sched`] | how a thread that wakes up gets a processor |
//! | [`named`] | control sockets with a name in the file system, and who connects to them |
//! | [`process`] | children that die with their parent, pidfds, dropping privileges |
//! | [`program`] | what is the same in all programs that the monitor starts |
//! | [`flight`] | in which app a process was when it died |
//! | [`log`] | where our programs log to |
//! | [`rate`] | how often something is logged that others can repeat |
//! | [`sandbox`] | the wall around a program: namespaces, root directory, privileges, Landlock, seccomp |
//! | [`object`] | loading an application's shared object from a descriptor |
//! | [`text`] | text of others made safe to show |
//! | `testing` | an allocator that counts and the like, for tests, behind the feature of that name |
//! | [`namespace`] | private network and mount namespaces for demonstrations and tests |
//!
//! What it will never do: speak OpenFlow, know what an application is for, decide a policy, or
//! open anything that its caller did not name.

pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod doorbell;
pub mod flight;
pub mod log;
pub mod memory;
pub mod named;
pub mod namespace;
pub mod object;
pub mod packets;
pub mod process;
pub mod program;
pub mod rate;
pub mod ring;
pub mod sandbox;
pub mod sched;
pub mod shm;
mod socket;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
