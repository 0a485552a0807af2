//! Compiles and hosts apps in WebAssembly, in three programs that share the settings of the engine.
//!
//! | module | content |
//! | --- | --- |
//! | `engine` | the settings of the engine, which compiler and host share |
//! | `compile` | compiles one module in a confined process, behind the feature `compiler` |
//! | `guest` | an app in a store of its own, behind the feature `runtime` |
//! | `run` | the program of the zone, behind the feature `host` |
//! | `kernel` | the hosting in the kernel's process, behind the feature `kernel` |
//! | `imports` | the functions that an app can call |
//! | `bounds` | the limits of an app |
//! | `budget` | ends a call that uses too much processor time |
//! | `reason` | words the engine's errors |
//!
//! Without a feature this crate is empty, so a build of the workspace does not compile wasmtime. `make wasm` builds the programs
//! one after the other: in one build, the hosts would have the compiler, too.
//!
//! A host never compiles, and makes no memory executable after it has mapped the apps' code. It answers no import that
//! `docs/wasm.md` does not name.

#![forbid(unsafe_code)]

#[cfg(feature = "runtime")]
pub mod bounds;
#[cfg(feature = "runtime")]
pub mod budget;
#[cfg(feature = "compiler")]
pub mod compile;
#[cfg(any(feature = "runtime", feature = "compiler"))]
pub mod engine;
#[cfg(feature = "runtime")]
pub mod guest;
#[cfg(feature = "runtime")]
mod imports;
#[cfg(feature = "kernel")]
pub mod kernel;
#[cfg(any(feature = "runtime", feature = "compiler"))]
mod reason;
#[cfg(feature = "host")]
pub mod run;
