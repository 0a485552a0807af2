//! Loads an app's shared object.
//!
//! The object is a descriptor of sealed memory or a file that no process can change any more, so the loaded bytes are
//! the checked ones. The object's constructors run during the load, so the process confines itself before.

use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;

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
    fn file_that_is_no_object_is_refused() {
        let fd = crate::shm::sealed_copy("object", b"not an object").unwrap();
        let error = Object::load(fd).unwrap_err();
        assert_eq!(error.to_string(), "file too short");
    }
}
