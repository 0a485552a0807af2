//! Compiles one module in a confined process, and ends.
//!
//! The module may be hostile and the compiler is large, so the process holds the module, the memory for the result and its control
//! socket, and nothing else.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use control::wasm::{CompileReply, CompileRequest, MAX_MODULE};
use sys::channel::{Channel, ChannelError};
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Limits, Memory, Sandbox};
use sys::shm::read_sealed;
use thiserror::Error;

use crate::engine::engine;
use crate::reason;

/// Limits for setrlimit(2). `file_size` bounds the result.
const LIMITS: Limits = Limits {
    descriptors: 16,
    threads: 1,
    file_size: control::wasm::MAX_CODE,
    memory: Some(Memory { data: 1 << 30, address_space: 2 << 30 }),
};

/// The process could not reply.
#[derive(Debug, Error)]
pub enum CompileError {
    /// The client has ended, or sent a message that is not a request.
    #[error("the client: {0}; rosemary-compile is started by the monitor")]
    Channel(#[from] ChannelError),
}

/// Receives the request, confines this process, and replies.
///
/// # Errors
/// [`CompileError`]. Every other failure is a reply.
pub fn run(client: &Channel) -> Result<(), CompileError> {
    let (CompileRequest { run_as }, fds) = client.wait()?;
    let reply = confine_and_compile(client, run_as, fds)
        .unwrap_or_else(|error| CompileReply::Failed { why: error.to_string() });
    Ok(client.send(&reply, &[])?)
}

fn confine_and_compile(
    client: &Channel,
    run_as: Option<u32>,
    fds: Vec<OwnedFd>,
) -> io::Result<CompileReply> {
    let [module, result] = <[OwnedFd; 2]>::try_from(fds)
        .map_err(|_| io::Error::other("a request without a module and memory for the result"))?;
    let keep = [module.as_fd(), result.as_fd()];
    let sandbox = Sandbox::new(Profile::Security, client.as_fd(), LIMITS);
    let sandbox = Sandbox { run_as, keep: &keep, ..sandbox };
    // Without the listener, system calls outside the profile fail and are not reported, as in `rosemary-security`.
    drop(sandbox.confine()?);
    let module = read_sealed(module, MAX_MODULE)?;
    Ok(match compile(&module) {
        Ok(code) => {
            File::from(result).write_all(&code)?;
            CompileReply::Compiled
        }
        Err(error) => CompileReply::Refused { why: reason::of(&error) },
    })
}

/// Compiles a module in WebAssembly's binary format.
///
/// # Errors
/// It is no valid module, or uses a proposal that apps may not use.
pub fn compile(module: &[u8]) -> Result<Vec<u8>, wasmtime::Error> {
    engine()?.precompile_module(module)
}
