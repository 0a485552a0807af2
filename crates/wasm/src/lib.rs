//! Compiles and hosts apps in WebAssembly, in two programs that share the settings of the engine.
//!
//! | module | content |
//! | --- | --- |
//! | `engine` | the settings of the engine, which compiler and host share |
//! | `compile` | compiles one module in a confined process, behind the feature `compiler` |
//! | `guest` | an app in a store of its own, as the event loop of a zone calls it, behind the feature `host` |
//! | `run` | the program of the zone |
//! | `imports` | the functions that an app can call |
//! | `bounds` | the limits of an app |
//! | `budget` | ends a call that uses too much processor time |
//! | `reason` | words the engine's errors |
//!
//! Without a feature this crate is empty, so a build of the workspace does not compile wasmtime. `make wasm` builds the two programs
//! one after the other: in one build, the host would have the compiler, too.
//!
//! The host never compiles, and makes no memory executable after it has mapped an app's code. It answers no import that
//! `docs/wasm.md` does not name.

#![forbid(unsafe_code)]

#[cfg(feature = "host")]
pub mod bounds;
#[cfg(feature = "host")]
pub mod budget;
#[cfg(feature = "compiler")]
pub mod compile;
#[cfg(any(feature = "host", feature = "compiler"))]
pub mod engine;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
mod imports;
#[cfg(any(feature = "host", feature = "compiler"))]
mod reason;
#[cfg(feature = "host")]
pub mod run;
