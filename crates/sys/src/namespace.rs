//! A machine in miniature: a thread's own network and its own view of the file system.
//!
//! Linux keeps both per thread, and a new process starts with those of the thread that made it.
//! So a thread that enters takes along everything it starts from then on, and nothing else of
//! its process. When the last of them is gone the kernel removes the network with its interfaces
//! and the mounts with their files: nothing has to be undone, even after `SIGKILL`.
//!
//! See `unshare(2)`, `network_namespaces(7)`, `mount_namespaces(7)`.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use thiserror::Error;

/// Why the thread could not leave the machine's own network and mounts.
#[derive(Debug, Error)]
pub enum EnterError {
    /// The kernel did not let this process make namespaces.
    #[error("the kernel refused a network and a mount namespace")]
    Unshare(#[source] Errno),
    /// The new mounts could not be cut off from the machine's.
    #[error("the mounts could not be made private")]
    MakePrivate(#[source] Errno),
    /// A directory could not be covered.
    #[error("an empty file system could not be mounted on {}", path.display())]
    Cover {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: Errno,
    },
}

/// Moves the calling thread into a network of its own, where even `lo` is down, and covers each
/// directory of `covered` that exists with an empty file system, for this thread alone.
///
/// Other threads stay where they are. There is no way back: the thread ends inside.
///
/// # Errors
/// [`EnterError::Unshare`] leaves the thread as it was; after the others it is inside, with the
/// directories of the machine still in view, and should end.
pub fn enter_private(covered: &[&Path]) -> Result<(), EnterError> {
    // SAFETY: the flags leave the descriptor table shared, so no descriptor that another thread
    // or a safe type holds changes its meaning.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
        .map_err(EnterError::Unshare)?;
    // Otherwise our mounts would appear in the machine as well, where `/` is shared.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(EnterError::MakePrivate)?;
    for path in covered.iter().filter(|path| path.is_dir()) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", *path, "tmpfs", flags, c"mode=0755")
            .map_err(|source| EnterError::Cover { path: path.to_path_buf(), source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn net_of_this_thread() -> PathBuf {
        fs::read_link("/proc/thread-self/ns/net").unwrap()
    }

    #[test]
    fn thread_that_enters_leaves_the_other_threads_where_they_are() {
        if !crate::process::is_root() {
            println!("SKIPPED: making namespaces needs root");
            return;
        }
        let outside = net_of_this_thread();
        let inside = std::thread::spawn(|| {
            enter_private(&[Path::new("/run"), Path::new("/does-not-exist")]).unwrap();
            assert_eq!(fs::read_dir("/run").unwrap().count(), 0);
            fs::write("/run/rosemary-namespace-test", "").unwrap();
            net_of_this_thread()
        })
        .join()
        .unwrap();
        assert_ne!(inside, outside);
        assert_eq!(net_of_this_thread(), outside);
        assert!(!Path::new("/run/rosemary-namespace-test").exists());
    }
}
