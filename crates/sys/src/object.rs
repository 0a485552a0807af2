//! Loads an app's shared object.
//!
//! The object is a descriptor of sealed memory or a file that no process can change any more, so the loaded bytes are
//! the checked ones. The object's constructors run during the load, so the process confines itself before.

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;

use libc::{Elf64_Phdr, dl_phdr_info};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};

/// A loaded object, which stays loaded until the process ends.
///
/// Unloading is never safe: threads, exit handlers or thread-locals of the object may still exist.
#[derive(Debug)]
pub struct Object(&'static Library);

impl Object {
    /// Loads the object in `fd`, resolves all its symbols and runs its constructors.
    ///
    /// The descriptor stays open: its number is the object's name, and the loader takes two objects with the same name
    /// for one.
    ///
    /// # Errors
    /// It is no shared object for this machine, or a library or symbol is missing. The text is the dynamic loader's.
    pub fn load(fd: OwnedFd) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        // Root owns the /proc entry of a process that cannot be dumped, and this process may have another user.
        let before = dumpable_behavior()?;
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let object = Self::open(&path);
        set_dumpable_behavior(before)?;
        let object = object?;
        let _stays_open = fd.into_raw_fd();
        Ok(object)
    }

    /// Loads the object in the same way as [`load`](Self::load) from a file that a [sandbox](crate::sandbox) has copied
    /// into its read-only directory.
    ///
    /// # Errors
    /// As `load`.
    pub fn load_copy(path: &Path) -> io::Result<Self> {
        Self::open(path.to_str().ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn open(path: &str) -> io::Result<Self> {
        // SAFETY: this runs the object's code, which is the purpose. The sandbox limits what that code can do.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| without_prefix(loader_error(&error), path))?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// The address of the object's data symbol `name`, valid until the process ends.
    ///
    /// # Errors
    /// The object has no such symbol.
    ///
    /// # Panics
    /// If `name` contains a NUL byte.
    pub fn symbol(&self, name: &str) -> io::Result<NonNull<c_void>> {
        let name = CString::new(name).expect("names of symbols are ours");
        // SAFETY: this takes only the address; the code that dereferences it states why that is sound.
        let address = unsafe { self.0.get::<*mut c_void>(name.as_bytes_with_nul()) }
            .map_err(|error| loader_error(&error))?;
        NonNull::new(address.into_raw()).ok_or_else(|| io::Error::other("the symbol is null"))
    }
}

/// The executable part of a program, library or object in this process's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The path by which it was loaded; empty for the program itself.
    pub name: String,
    /// Where its executable segments lie in memory.
    pub range: Range<u64>,
    /// The difference between an address in memory and in the file's headers.
    pub bias: u64,
}

impl Module {
    /// The name of its file without the directory; empty for the program itself.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// Lists the program and its libraries and objects, in the order in which they were loaded.
pub fn loaded_modules() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: the callback gets the vector's address only during the call, and neither unwinds nor loads an object.
    unsafe { libc::dl_iterate_phdr(Some(add_module), (&raw mut modules).cast()) };
    modules
}

/// A range that any other range enlarges to itself.
const NOWHERE: Range<u64> = Range { start: u64::MAX, end: 0 };

/// Adds a module to the `Vec<Module>` at `modules`.
extern "C" fn add_module(info: *mut dl_phdr_info, _size: usize, modules: *mut c_void) -> c_int {
    // SAFETY: `loaded_modules` passes the address of its vector, and waits.
    let modules = unsafe { &mut *modules.cast::<Vec<Module>>() };
    // SAFETY: the loader passes a valid structure.
    let info = unsafe { &*info };
    // SAFETY: the structure names that many program headers, which the loader keeps.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let executable = |it: &&Elf64_Phdr| it.p_type == libc::PT_LOAD && it.p_flags & libc::PF_X != 0;
    let range = headers.iter().filter(executable).fold(NOWHERE, |range, header| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        range.start.min(start)..range.end.max(start.saturating_add(header.p_memsz))
    });
    let name = NonNull::new(info.dlpi_name.cast_mut()).map(|name| {
        // SAFETY: the loader ends its names with a NUL byte and keeps them.
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy()
    });
    if !range.is_empty() {
        modules.push(Module {
            name: name.unwrap_or_default().into_owned(),
            range,
            bias: info.dlpi_addr,
        });
    }
    0
}

/// The text of the dynamic loader, which libloading keeps as the source of its error.
fn loader_error(error: &libloading::Error) -> io::Error {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    io::Error::other(cause.unwrap_or_else(|| error.to_string()))
}

/// Removes the file name that the loader puts before its text: it is a number in `/proc/self/fd`.
fn without_prefix(error: io::Error, path: &str) -> io::Error {
    let text = error.to_string();
    let rest = text.strip_prefix(path).and_then(|rest| rest.strip_prefix(": "));
    rest.map(io::Error::other).unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_contain_this_code() {
        let here = modules_contain_this_code as fn() as *const () as u64;
        let modules = loaded_modules();
        let program = modules.iter().find(|it| it.range.contains(&here)).unwrap();
        assert_eq!(program.name, "");
        assert!(modules.iter().any(|it| it.file_name().starts_with("libc.so")), "{modules:?}");
    }

    #[test]
    fn file_that_is_no_object_is_refused() {
        let fd = crate::shm::sealed_copy("object", b"not an object").unwrap();
        let error = Object::load(fd).unwrap_err();
        assert_eq!(error.to_string(), "file too short");
    }
}
