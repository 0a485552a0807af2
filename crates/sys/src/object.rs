//! Loading an application's shared object.
//!
//! From a descriptor, or from a file that nobody can change any more: what was checked is then what
//! is loaded. The object's constructors run during the load, so whoever calls this has confined itself
//! before.

use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};

/// A loaded object. It stays loaded for the life of the process.
///
/// Unloading code whose threads, exit handlers or thread-locals may still exist cannot be made
/// safe, and nothing here needs it.
#[derive(Debug)]
pub struct Object(&'static Library);

impl Object {
    /// Loads the object in `fd`, with all its symbols resolved, running its constructors.
    ///
    /// The descriptor stays open with the object: the loader takes two objects of the same name
    /// for one, and the name is the descriptor's number.
    ///
    /// # Errors
    /// It is not a shared object for this machine, or needs a library or symbol that is not
    /// there; the dynamic loader's own words.
    pub fn load(fd: OwnedFd) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        // A process that changed its user may not look into its own /proc while not dumpable.
        let before = dumpable_behavior()?;
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let object = Self::open(&path);
        set_dumpable_behavior(before)?;
        let object = object?;
        let _stays_open = fd.into_raw_fd();
        Ok(object)
    }

    /// As [`load`](Self::load), from a file: one of those that a [sandbox](crate::sandbox) has copied to
    /// where nobody can change them.
    ///
    /// # Errors
    /// As `load`.
    pub fn load_copy(path: &Path) -> io::Result<Self> {
        Self::open(path.to_str().ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn open(path: &str) -> io::Result<Self> {
        // SAFETY: running the object's code is the purpose. It runs with what this process is
        // allowed, which its confinement has decided before.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| without_prefix(loader_error(&error), path))?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// The address of the object's data symbol `name`, valid from now on.
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Panics
    /// If `name` contains a NUL byte.
    pub fn symbol(&self, name: &str) -> io::Result<NonNull<c_void>> {
        let name = CString::new(name).expect("names of symbols are ours");
        // SAFETY: only the address is taken; who looks behind it says there why that is right.
        let address = unsafe { self.0.get::<*mut c_void>(name.as_bytes_with_nul()) }
            .map_err(|error| loader_error(&error))?;
        NonNull::new(address.into_raw()).ok_or_else(|| io::Error::other("the symbol is null"))
    }
}

/// The loader's own words, which libloading keeps as the cause.
fn loader_error(error: &libloading::Error) -> io::Error {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    io::Error::other(cause.unwrap_or_else(|| error.to_string()))
}

/// The loader begins with the name it was given, which tells nobody anything.
fn without_prefix(error: io::Error, path: &str) -> io::Error {
    let text = error.to_string();
    let rest = text.strip_prefix(path).and_then(|rest| rest.strip_prefix(": "));
    rest.map(io::Error::other).unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_an_object_is_an_error_of_the_loader() {
        let fd = crate::shm::sealed_copy("object", b"not an object").unwrap();
        let error = Object::load(fd).unwrap_err();
        assert_eq!(error.to_string(), "file too short");
    }
}
