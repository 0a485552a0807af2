//! Messages to `rosemary-compile`, the confined process that compiles an app in WebAssembly.
//!
//! The monitor starts one process per module. It answers once and exits. The module may be hostile, so the monitor believes the
//! reply about this module and about nothing else.

use serde::{Deserialize, Serialize};

/// Names the engine that compiles and runs modules: its version, and the number of its settings, which a change of
/// `wasm/src/engine.rs` increases. Code that another engine made is compiled again.
pub const ENGINE: &str = "wasmtime-48.0.8-1";

/// The most bytes of a module.
pub const MAX_MODULE: usize = 32 << 20;

/// The most bytes of a compiled module.
pub const MAX_CODE: u64 = 256 << 20;

/// Sent to `rosemary-compile`, which confines itself before it reads a descriptor. Descriptors: the module in sealed memory, and
/// empty memory for the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileRequest {
    /// The user and group to become, if the sender is root.
    pub run_as: Option<u32>,
}

/// Sent by `rosemary-compile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompileReply {
    /// The memory has the compiled module.
    Compiled,
    /// The module is invalid, or needs what apps may not use.
    Refused {
        /// The reason, as a phrase.
        why: String,
    },
    /// The process could not confine itself, or not use the descriptors.
    Failed {
        /// The reason, as a phrase.
        why: String,
    },
}
