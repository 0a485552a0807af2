//! Maps the compiled code of a WebAssembly module: the one place where bytes of a file become code of a module.
//!
//! The system runs these bytes as they are. The caller names the digest that the compiler's output had, and the bytes lie in
//! memory that no process can change, so the mapped code is that output. Wasmtime itself checks that its own version,
//! settings and processor match those of the compiler.

use std::fs::File;
use std::os::fd::OwnedFd;

use thiserror::Error;
use wasmtime::{Engine, Module};

use crate::digest::sha256;
use crate::shm::is_immutable;

/// Why code was not mapped.
#[derive(Debug, Error)]
pub enum CodeError {
    /// Another process could still change it.
    #[error("the compiled module is not in sealed memory")]
    NotSealed,
    /// It is not the compiler's output.
    #[error("the compiled module's SHA-256 is {found}, not {expected}")]
    Other {
        /// The digest that the caller named.
        expected: String,
        /// The digest of the bytes.
        found: String,
    },
    /// It cannot be read.
    #[error("the compiled module could not be read: {0}")]
    Read(#[from] std::io::Error),
    /// It was compiled for another version, another processor or with other settings.
    #[error("the compiled module does not fit this program: {0}")]
    Unfit(String),
}

/// Maps the compiled module in `code`, whose SHA-256 in hexadecimal digits is `expected`.
///
/// The caller has the digest from the process that received the module from the compiler, not from the module's origin.
///
/// # Errors
/// [`CodeError`]: nothing was mapped.
pub fn map(engine: &Engine, code: OwnedFd, expected: &str) -> Result<Module, CodeError> {
    if !is_immutable(&code) {
        return Err(CodeError::NotSealed);
    }
    let code = File::from(code);
    let found = sha256(&code)?;
    if found != expected {
        return Err(CodeError::Other { expected: expected.to_owned(), found });
    }
    // SAFETY: the bytes are the compiler's output, as the digest shows, and the seals keep them as they are for as long as
    // they are mapped.
    let module = unsafe { Module::deserialize_open_file(engine, code) };
    module.map_err(|error| CodeError::Unfit(format!("{error:#}")))
}
