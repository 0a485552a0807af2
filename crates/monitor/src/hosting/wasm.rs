//! Prepares apps in WebAssembly: compiles their modules in a confined program, and keeps the code in sealed memory.
//!
//! The code is on no disk, so no other program can make or change it, and a later release of Rosemary compiles the module again. A module
//! is compiled when the configuration is read: at the start, and for `rosemary reload`, outside of the event loop.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use control::hosting::Hosting;
use control::wasm::{CompileReply, CompileRequest, MAX_CODE, MAX_MODULE};
use control::zone::GuestSettings;
use rustix::fs::{MemfdFlags, memfd_create};
use supervisor::effects::Fd;
use supervisor::program::Executable;
use supervisor::spec::{AppSpec, Runtime};
use supervisor::text::harmless;
use sys::digest::sealed_with_sha256;

use super::{Code, Host, OtherFiles};
use crate::error::StartError;
use crate::installation::Installation;
use crate::object::Object;
use crate::one_shot;
use crate::users::Users;

/// How a module in WebAssembly's binary format begins: its magic number and the version. A component has another version.
const BEGINNING: &[u8] = b"\0asm\x01\0\0\0";

/// The most modules whose code is kept. The least recently used is removed first.
const MOST_KEPT: usize = 1024;

/// The most characters of the compiler's reason.
const LONGEST_REASON: usize = 400;

/// The code of modules by the digest of the module, or why there is none. The most recently used is last.
static KEPT: Mutex<Vec<(String, Result<Code, String>)>> = Mutex::new(Vec::new());

/// The hosting of modules in WebAssembly.
#[derive(Debug)]
pub(super) struct Wasm;

impl Host for Wasm {
    fn runtime(&self, _app: &str, installation: &Installation) -> Result<Runtime, StartError> {
        installation.wasm_compiler()?;
        Ok(Runtime::of_program(Hosting::WASM, installation.wasm_host()?))
    }

    fn kernel(&self, installation: &Installation) -> Result<Option<Executable>, StartError> {
        Ok(Some(installation.wasm_kernel()?.into()))
    }

    fn check(&self, object: &[u8]) -> Result<(), &'static str> {
        if object.starts_with(BEGINNING) {
            Ok(())
        } else {
            Err("it is no module in WebAssembly's binary format")
        }
    }

    fn remedy(&self) -> &'static str {
        "build it again, or correct `object`"
    }

    fn prepare(&self, app: &str, object: &mut Object, installation: &Installation) {
        let Ok(sha256) = object.read(app).map(ToOwned::to_owned) else { return }; // reported when it is started
        let Some(module) = object.sealed() else { return };
        if !matches!(kept(&sha256), Some(Ok(_))) {
            let compiled = installation.wasm_compiler().map_err(|error| error.to_string());
            keep(sha256, compiled.and_then(|program| compile(&program, &module)));
        }
    }

    fn code(&self, sha256: &str) -> Result<Option<Code>, String> {
        let changed =
            || Err("it has changed and is not compiled; type: rosemary reload".to_owned());
        kept(sha256).unwrap_or_else(changed).map(Some)
    }

    fn settings(&self, spec: &AppSpec, object: &Object) -> GuestSettings {
        GuestSettings {
            options: spec.keys.host_keys.options.clone(),
            ..GuestSettings::of_file(spec.runtime.host, object.path().display().to_string())
        }
    }

    fn other_files(&self, _spec: &AppSpec, _object: &Object) -> Option<Box<dyn OtherFiles>> {
        None
    }
}

fn kept(sha256: &str) -> Option<Result<Code, String>> {
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = all.iter().position(|(of, _)| of == sha256)?;
    let row = all.remove(at);
    let code = row.1.clone();
    all.push(row);
    Some(code)
}

fn keep(sha256: String, code: Result<Code, String>) {
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(of, _)| *of != sha256);
    if all.len() >= MOST_KEPT {
        drop(all.remove(0));
    }
    all.push((sha256, code));
}

/// Compiles a module, and waits for the result.
fn compile(program: &Path, module: &Fd) -> Result<Code, String> {
    let failed = |error: io::Error| format!("it could not be compiled: {error}");
    let size = rustix::fs::fstat(module).map_err(|error| failed(error.into()))?.st_size;
    if usize::try_from(size).is_ok_and(|size| size > MAX_MODULE) {
        return Err(format!("it has {size} bytes, at most {MAX_MODULE} are allowed"));
    }
    let users = Users::find().map_err(|error| failed(io::Error::other(error)))?;
    let result = memfd_create("code", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let request = CompileRequest { run_as: users.for_nobody() };
    match one_shot::request(program, &request, &[module.as_fd(), result.as_fd()]).map_err(failed)? {
        CompileReply::Compiled => copy(&result.into()).map_err(failed),
        CompileReply::Refused { why } => {
            Err(format!("it cannot be compiled: {}", harmless(&why, LONGEST_REASON)))
        }
        CompileReply::Failed { why } => {
            Err(format!("it could not be compiled: {}", harmless(&why, LONGEST_REASON)))
        }
    }
}

/// Copies the compiler's result into memory that no process can change. The compiler may still hold the memory that it wrote.
fn copy(result: &File) -> io::Result<Code> {
    use std::os::unix::fs::FileExt as _;
    let size = result.metadata()?.len();
    if size > MAX_CODE {
        return Err(io::Error::other("the code is too long"));
    }
    let mut code = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    result.read_exact_at(&mut code, 0)?;
    let (code, sha256) = sealed_with_sha256("code", &code)?;
    Ok((code.into(), sha256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_is_recognised() {
        assert_eq!(Wasm.check(b"\0asm\x01\0\0\0\x01"), Ok(()));
        assert!(Wasm.check(b"\0asm\x0d\0\x01\0").is_err(), "a component");
        assert!(Wasm.check(b"\x7fELF").is_err());
    }

    #[test]
    fn code_is_found_by_the_digest_of_its_module() {
        let (code, of_code) = sealed_with_sha256("code", b"code").unwrap();
        keep("of the module".into(), Ok((code.into(), of_code.clone())));
        assert_eq!(Wasm.code("of the module").unwrap().unwrap().1, of_code);
        keep("of a bad one".into(), Err("it cannot be compiled: no".into()));
        assert_eq!(Wasm.code("of a bad one").unwrap_err(), "it cannot be compiled: no");
        assert!(Wasm.code("of another").unwrap_err().contains("rosemary reload"));
    }
}
