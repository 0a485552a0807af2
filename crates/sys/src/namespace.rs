//! Moves a thread into a private network and a private view of the file system, for demonstrations and tests.
//!
//! Linux keeps both per thread, and a new process inherits those of the thread that starts it. So the programs that the
//! thread starts are inside too, and the other threads of its process are not. When the last of them has ended, Linux
//! removes the network with its interfaces and the mounts with their files, so no cleanup is needed, even after
//! `SIGKILL`.
//!
//! An ordinary user needs a user namespace for this, where the system allows them. Inside, the user is root and owns
//! only what is inside. A user namespace affects the whole process.
//!
//! See `unshare(2)`, `user_namespaces(7)`, `network_namespaces(7)`, `mount_namespaces(7)`.

use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use thiserror::Error;

/// Why the thread could not leave the machine's own network and mounts.
#[derive(Debug, Error)]
pub enum EnterError {
    /// Linux refused the namespaces.
    #[error("the kernel refused a network and a mount namespace")]
    Unshare(#[source] Errno),
    /// The new mounts could not be separated from the machine's.
    #[error("the mounts could not be made private")]
    MakePrivate(#[source] Errno),
    /// A directory could not be covered with an empty file system.
    #[error("an empty file system could not be mounted on {}", path.display())]
    Cover {
        /// The directory.
        path: PathBuf,
        /// The error of Linux.
        source: io::Error,
    },
}

/// Why the process could not become root of a user namespace.
#[derive(Debug, Error)]
pub enum BecomeRootError {
    /// Linux refused the user namespace.
    #[error("the kernel refused a user namespace")]
    Unshare(#[source] Errno),
    /// The users of the namespace could not be mapped. A security module may have refused it.
    #[error("{file} could not be written")]
    Map {
        /// The file.
        file: &'static str,
        /// The error of Linux.
        source: io::Error,
    },
}

/// The file by which a process gives up setgroups(2).
const SETGROUPS: &str = "/proc/self/setgroups";

/// Makes this process root of a user namespace of its own with no other users.
///
/// Call this while the process has one thread.
///
/// # Errors
/// [`BecomeRootError::Unshare`] leaves the process unchanged. After the other error it is inside without a user, and
/// should end.
pub fn become_root() -> Result<(), BecomeRootError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: the flag leaves the descriptor table shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(BecomeRootError::Unshare)?;
    // The last write requires the first: a group may exist to deny its members access, so Linux does not let the
    // process leave it.
    for (file, text) in [
        (SETGROUPS, "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {} 1", user.as_raw())),
        ("/proc/self/gid_map", format!("0 {} 1", group.as_raw())),
    ] {
        fs::write(file, text).map_err(|source| BecomeRootError::Map { file, source })?;
    }
    Ok(())
}

/// Whether this process is in a user namespace of [`become_root`].
pub fn is_of_one_user() -> bool {
    fs::read_to_string(SETGROUPS).is_ok_and(|text| text.trim() == "deny")
}

/// A filter for seccomp(2) that answers setgroups(2) with success and allows every other call.
///
/// The first field of its input is the number of the system call. It does not check the architecture, because it
/// protects nothing.
const GROUPS_ARE_SET: [libc::sock_filter; 4] = [
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_setgroups.unsigned_abs(), 1),
    step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO as u64, 0), // error 0: done
    step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW as u64, 0),
];

/// An instruction, which skips `otherwise` instructions if its comparison fails.
#[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits, operands have 32")]
const fn step(code: u32, k: u64, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: otherwise, k: k as u32 }
}

/// Makes setgroups(2) succeed without an effect in `command`, for a user namespace where the call is refused.
///
/// Some programs give up their groups at their start and end if the call fails.
pub fn pretend_to_set_groups(command: &mut Command) -> &mut Command {
    let mut filter = GROUPS_ARE_SET;
    let pretend = move || {
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: the filter and the structure live until the call returns, which copies them.
        let result = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes a system call and allocates nothing.
    unsafe { command.pre_exec(pretend) }
}

/// Moves the calling thread into a network of its own, where even `lo` is down, and mounts an empty file system on each
/// directory of `covered` for this thread only.
///
/// A covered directory that does not exist is created inside: this covers its parent, which must exist, with a new
/// directory that shows all entries of the parent. Files that are created there exist only inside.
///
/// Other threads are not affected. The thread cannot leave again.
///
/// # Errors
/// [`EnterError::Unshare`] leaves the thread unchanged. After the other errors it is inside and still sees directories
/// of the machine, and should end.
pub fn enter_private(covered: &[&Path]) -> Result<(), EnterError> {
    // SAFETY: the flags leave the descriptor table shared, so no descriptor of another thread or of a safe type
    // changes its meaning.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
        .map_err(EnterError::Unshare)?;
    // Otherwise these mounts would appear outside if `/` is a shared mount.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(EnterError::MakePrivate)?;
    for path in covered {
        let cover = if path.is_dir() { empty(path) } else { make_inside(path) };
        cover.map_err(|source| EnterError::Cover { path: path.to_path_buf(), source })?;
    }
    Ok(())
}

/// Mounts an empty file system on `dir`.
fn empty(dir: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", dir, "tmpfs", flags, c"mode=0755")?)
}

/// Makes the directory `path` in a copy of its parent that has the parent's entries.
fn make_inside(path: &Path) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // The parent's entries stay reachable by this descriptor after the parent is covered.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let original = rustix::fs::open(parent, flags, Mode::empty())?;
    let below = PathBuf::from(format!("/proc/self/fd/{}", original.as_raw_fd()));
    empty(parent)?;
    for entry in fs::read_dir(&below)? {
        let entry = entry?;
        let (from, to) = (below.join(entry.file_name()), parent.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&to)?;
        } else {
            fs::File::create(&to)?;
        }
        match mount_bind_recursive(&from, &to) {
            Err(Errno::NOENT) => {} // a temporary file that was removed meanwhile
            result => result?,
        }
    }
    fs::create_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net_of_this_thread() -> PathBuf {
        fs::read_link("/proc/thread-self/ns/net").unwrap()
    }

    #[test]
    fn program_that_pretends_to_set_groups_keeps_its_own() {
        if !crate::process::is_root() {
            println!("SKIPPED: only root may say what a system call answers");
            return;
        }
        let mut groups = Command::new("setpriv");
        groups.args(["--groups=31415", "id", "-G"]);
        let text = |output: std::process::Output| String::from_utf8(output.stdout).unwrap();
        assert_eq!(text(groups.output().unwrap()).split_whitespace().next_back(), Some("31415"));
        let pretended = text(pretend_to_set_groups(&mut groups).output().unwrap());
        assert!(!pretended.is_empty() && !pretended.contains("31415"), "{pretended}");
    }

    #[test]
    fn entering_does_not_affect_other_threads() {
        if !crate::process::is_root() {
            println!("SKIPPED: making namespaces needs root");
            return;
        }
        let outside = net_of_this_thread();
        let entries = || fs::read_dir("/etc").unwrap().count();
        let before = entries();
        let inside = std::thread::spawn(move || {
            enter_private(&[Path::new("/run"), Path::new("/etc/rosemary-namespace-test")]).unwrap();
            assert_eq!(fs::read_dir("/run").unwrap().count(), 0);
            assert_eq!(fs::read_dir("/etc/rosemary-namespace-test").unwrap().count(), 0);
            fs::write("/etc/rosemary-namespace-test/file", "").unwrap();
            assert!(fs::read_to_string("/etc/passwd").unwrap().contains("root"));
            assert_eq!(entries(), before + 1);
            fs::write("/run/rosemary-namespace-test", "").unwrap();
            net_of_this_thread()
        })
        .join()
        .unwrap();
        assert_ne!(inside, outside);
        assert_eq!(net_of_this_thread(), outside);
        assert!(!Path::new("/run/rosemary-namespace-test").exists());
        assert!(!Path::new("/etc/rosemary-namespace-test").exists());
    }
}
