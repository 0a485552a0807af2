//! Wraps the parts of Linux that Rosemary needs in safe functions.
//!
//! Only this crate and the module of the C ABI in `sdk` may contain `unsafe`. Every crate above them forbids it.
//!
//! | module | content |
//! | --- | --- |
//! | [`shm`] | shared memory: memfds that nobody can resize and that the reader cannot write |
//! | [`ring`] | the up and down rings between the kernel and a zone, and their commit protocol |
//! | [`doorbell`] | a pipe that wakes a sleeping peer |
//! | [`descriptor`] | duplicates descriptors that are named by number |
//! | [`cgroup`] | cgroups of both versions: limits and usage of a program |
//! | [`channel`] | control sockets: one typed message per packet, with descriptors |
//! | [`closing`] | closes descriptors whose close can block on a thread of its own |
//! | [`listening`] | listening sockets that one process after another uses |
//! | [`packets`] | packets of bytes between a zone and a service |
//! | [`clock`] | the clock of the events that apps receive |
//! | [`sched`] | the wake-up policy of a thread |
//! | [`named`] | control sockets with a path in the file system, and the credentials of their peers |
//! | [`process`] | child processes that end with their parent, and dropping privileges |
//! | [`program`] | the common `main` of all programs that the monitor starts |
//! | [`log`] | the log output of every program |
//! | [`rate`] | limits log lines that others can repeat |
//! | [`sandbox`] | confinement: namespaces, root directory, privileges, Landlock, seccomp |
//! | [`crash`] | records a crash of this process in shared memory |
//! | [`object`] | loads an app's shared object from a descriptor |
//! | [`stdout`] | standard output for code that prints for people |
//! | [`table`] | a table of records that one process writes and others read |
//! | [`text`] | escapes text of others for display, and writes bytes as digits |
//! | [`random`] | reads random numbers |
//! | `wasm` | maps the compiled code of a WebAssembly module, behind the feature `wasm` |
//! | `testing` | a counting allocator and forked children for tests, behind the feature `testing` |
//! | [`namespace`] | private network and mount namespaces for demonstrations and tests |
//!
//! This crate never speaks OpenFlow, knows no app, decides no policy, and opens only files that its caller names.

pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod closing;
pub mod crash;
pub mod descriptor;
#[cfg(feature = "digest")]
pub mod digest;
pub mod doorbell;
pub mod listening;
pub mod log;
pub mod memory;
pub mod named;
pub mod namespace;
pub mod object;
pub mod packets;
pub mod process;
pub mod program;
pub mod random;
pub mod rate;
pub mod ring;
pub mod sandbox;
pub mod sched;
pub mod shm;
mod socket;
pub mod stdout;
pub mod table;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
#[cfg(feature = "wasm")]
pub mod wasm;
