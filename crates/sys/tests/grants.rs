//! Grants paths to a confined process that contain links, are closed to its user, or have mounts below them.
//!
//! The process is this test program, started with the name of an ignored test. Only root can set this up.

#![expect(clippy::print_stdout, reason = "skipped tests print the reason")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(unsafe_code, reason = "the process ends without the end of a test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rosemary_sys::channel::{Channel, ChannelError};
use rosemary_sys::process::{Child, PidNamespace, is_root, split_off_init};
use rosemary_sys::sandbox::seccomp::Profile;
use rosemary_sys::sandbox::{Limits, Mechanism, Sandbox};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The directory with the granted paths.
const DIR: &str = "ROSEMARY_TEST_GRANTS";

/// The granted paths in that directory, separated by spaces.
const GRANTED: &str = "ROSEMARY_TEST_GRANTED";

/// Set if the process runs in a changed root directory, where it cannot get a private one.
const CHANGED: &str = "ROSEMARY_TEST_CHANGED_ROOT";

/// Which files the process could read, by name, and whether Landlock is on; or why it was not confined.
type Said = Result<(BTreeMap<String, bool>, bool), String>;

#[test]
#[ignore = "the other tests start it to be confined"]
fn play() {
    let Some(mut dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let granted = std::env::var(GRANTED).unwrap();
    split_off_init().unwrap();
    // SAFETY: the flag does not unshare the table of descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    let nested = dir.join("data/nested");
    mount("none", &nested, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(nested.join("file"), "nested").unwrap();
    mount("none", dir.join("elsewhere"), "proc", MountFlags::empty(), None).unwrap();
    mount_bind(dir.join("own"), dir.join("also-own")).unwrap();
    mount_bind(dir.join("own/part"), dir.join("part-of-own")).unwrap();
    mount_bind(&dir, dir.join("above-own")).unwrap();
    mount("none", dir.join("own/mounted"), "tmpfs", MountFlags::empty(), None).unwrap();
    mount_bind(dir.join("own/mounted"), dir.join("mounted-in-own")).unwrap();
    mount_bind(dir.join("above"), dir.join("above-what-is-missing")).unwrap();
    if std::env::var_os(CHANGED).is_some() {
        // pivot_root(2) fails for a process whose root directory is no mount point.
        mount("none", dir.join("proc"), "proc", MountFlags::empty(), None).unwrap();
        rustix::process::chroot(&dir).unwrap();
        dir = PathBuf::from("/");
    }
    let control = Channel::from_stdin().unwrap();
    let read: Vec<PathBuf> = granted.split(' ').map(|name| dir.join(name)).collect();
    let limits = Limits { descriptors: 64, threads: 8, file_size: 1 << 20, memory: None };
    let sandbox = Sandbox {
        run_as: Some(1_879_113_726),
        read: &read,
        never: &[dir.join("own"), dir.join("above/missing")],
        ..Sandbox::new(Profile::Zone, control.as_fd(), limits)
    };
    let said: Said = sandbox.confine().map_err(|error| error.to_string()).map(|confined| {
        let names = [
            "data/file",
            "data/nested/file",
            "data/to-open/inside",
            "closed/inside",
            "open/inside",
            "outside",
        ];
        let read = |name: &str| (name.to_owned(), fs::read(dir.join(name)).is_ok());
        let landlock = confined.report.is_on(Mechanism::LandlockFiles);
        (names.into_iter().map(read).collect(), landlock)
    });
    control.send(&said, &[]).unwrap();
    // SAFETY: nothing is to be cleaned up.
    unsafe { libc::_exit(0) }
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir();
        let dir = dir.join(format!("rosemary-grants-{}-{name}", std::process::id()));
        for sub in [
            "data/nested",
            "elsewhere",
            "own/part",
            "closed",
            "open",
            "proc",
            "also-own",
            "above-own",
            "part-of-own",
            "own/mounted",
            "mounted-in-own",
            "above",
            "above-what-is-missing",
        ] {
            fs::create_dir_all(dir.join(sub)).unwrap();
        }
        for file in
            ["data/file", "own/key", "own/part/file", "closed/inside", "open/inside", "outside"]
        {
            fs::write(dir.join(file), file).unwrap();
        }
        fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("/proc/self", dir.join("to-proc")).unwrap();
        symlink("own/key", dir.join("to-own")).unwrap();
        symlink("data", dir.join("to-data")).unwrap();
        symlink(dir.join("open"), dir.join("data/to-open")).unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Confines a process with these grants. Returns `None` and prints the reason without root.
fn confined_with(name: &str, granted: &str) -> Option<Said> {
    confined(name, granted, &[])
}

fn confined(name: &str, granted: &str, more: &[(&str, &str)]) -> Option<Said> {
    if !is_root() {
        println!("SKIPPED: this needs root");
        return None;
    }
    let dir = Dir::new(name);
    let (ours, theirs) = Channel::passing_pair().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "play"]);
    command.env(DIR, dir.path()).env(GRANTED, granted).envs(more.iter().copied());
    let (_child, output) = Child::spawn_with(PidNamespace::ByParent, &mut command, theirs).unwrap();
    drop(command); // it keeps the other end open
    loop {
        poll(&mut [PollFd::new(&ours, PollFlags::IN)], None).unwrap();
        match ours.receive::<Said>() {
            Ok((said, _)) => return Some(said),
            Err(ChannelError::WouldBlock) => {}
            Err(error) => {
                let mut text = vec![0; 4096];
                let size = rustix::io::read(&output.stderr, &mut text).unwrap_or(0);
                panic!("{error}: {}", String::from_utf8_lossy(&text[..size]));
            }
        }
    }
}

#[test]
fn granted_directory_hides_mounts_below_it() {
    for granted in ["data", "data data/nested", "data/nested data"] {
        let Some(said) = confined_with("mounts", granted) else { return };
        let (read, landlock) = said.unwrap();
        assert!(read["data/file"] && !read["outside"], "{read:?}");
        assert_eq!(read["data/nested/file"], granted != "data", "it is granted by its own name");
        assert!(landlock);
    }
}

#[test]
fn path_that_must_stay_hidden_is_refused_with_advice() {
    for (granted, why) in [
        ("to-proc", "the system's own state; grant another path"),
        ("elsewhere", "the system's own state; grant another path"),
        ("to-own", "which is Rosemary's own; grant another path"),
        ("own/key", "which is Rosemary's own; grant another path"),
        ("also-own", "which is Rosemary's own; grant another path"),
        ("also-own/key", "which is Rosemary's own; grant another path"),
        ("part-of-own", "which is Rosemary's own; grant another path"),
        ("part-of-own/file", "which is Rosemary's own; grant another path"),
        ("above-own", "which is Rosemary's own; grant another path"),
        ("mounted-in-own", "which is Rosemary's own; grant another path"),
        ("above-what-is-missing", "which is Rosemary's own; grant another path"),
        ("data missing", "create it, or remove it"),
        ("data data/nested/file", "it is on a mount below another granted path"),
        ("data data/nested/file", "data/nested instead"),
        ("data data/to-open/inside", "data/to-open is a link below another granted path"),
    ] {
        let Some(said) = confined_with("refused", granted) else { return };
        let error = said.unwrap_err();
        assert!(error.contains(why) && error.contains("cannot be shown to the app"), "{error}");
    }
}

#[test]
fn granted_link_is_shown_at_its_own_path_only() {
    let Some(said) = confined_with("link", "to-data") else { return };
    let (read, landlock) = said.unwrap();
    assert!(!read["data/file"] && landlock, "{read:?}");
}

#[test]
fn path_through_a_link_is_shown_at_that_path() {
    let Some(said) = confined_with("through", "data/to-open/inside") else { return };
    let (read, landlock) = said.unwrap();
    assert!(read["data/to-open/inside"] && !read["open/inside"] && landlock, "{read:?}");
}

#[test]
fn directory_closed_to_its_user_leaves_landlock_on() {
    let Some(said) = confined_with("closed", "data closed closed/inside") else { return };
    let (read, landlock) = said.unwrap();
    assert!(landlock, "{read:?}");
    assert!(read["data/file"] && !read["closed/inside"], "{read:?}");
}

#[test]
fn without_a_private_root_only_files_are_shown() {
    let changed = [(CHANGED, "1")];
    let Some(said) = confined("changed", "data/file", &changed) else { return };
    let (read, landlock) = said.unwrap();
    assert!(read["data/file"] && !read["outside"] && landlock, "{read:?}");
    let error = confined("changed", "data/file data", &changed).unwrap().unwrap_err();
    assert!(
        error.contains("no root directory of its own") && error.contains("one by one"),
        "{error}"
    );
}
