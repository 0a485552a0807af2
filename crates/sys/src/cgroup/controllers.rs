//! Finds the group of this process for each controller: the mounted tree, and the path in it.
//!
//! Two files list them, `cgroups(7)` and `proc_pid_mountinfo(5)`:
//!
//! ```text
//! /proc/self/cgroup      4:memory:/system.slice/rosemary.service      number:controllers:path in the tree
//!                        0::/system.slice/rosemary.service            version 2
//! /proc/self/mountinfo   36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
//!                                   ^ the mounted part of the tree      type       controllers
//! ```

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Controller;
use super::files::{AVAILABLE, Version};

/// The list of this process's groups.
pub(super) const OWN: &str = "/proc/self/cgroup";

/// The list of mounts.
pub(super) const MOUNTS: &str = "/proc/self/mountinfo";

/// A controller and the directory of a group that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ControllerDir {
    pub(super) controller: Controller,
    pub(super) version: Version,
    pub(super) dir: PathBuf,
    /// The directory with the processor time, which a controller of its own counts in version 1.
    pub(super) times: Option<PathBuf>,
}

/// The directory of each controller, or why there is none, from the texts of [`OWN`] and [`MOUNTS`].
pub(super) fn find(own: &str, mounts: &str) -> Vec<(Controller, Result<ControllerDir, String>)> {
    let first = |name: &str| first(own, mounts, name);
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::of).collect();
    let second = || {
        let path = own.lines().filter_map(split).find(|(controllers, _)| controllers.is_empty())?.1;
        let mut mounts = mounts.iter().filter(|mount| mount.version == Version::V2);
        mounts.find_map(|mount| mount.dir_of(path))
    };
    let one = |controller: Controller| {
        if let Some(dir) = first(controller.name()) {
            let times = (controller == Controller::Cpu).then(|| first("cpuacct")).flatten();
            return Ok(ControllerDir { controller, version: Version::V1, dir, times });
        }
        let name = controller.name();
        let dir = second().ok_or_else(|| {
            format!("no controller {name} of cgroups is mounted where this process is in it")
        })?;
        let available = fs::read_to_string(dir.join(AVAILABLE)).unwrap_or_default();
        if available.split_whitespace().any(|it| it == name) {
            return Ok(ControllerDir { controller, version: Version::V2, dir, times: None });
        }
        Err(format!("the controller {name} was not delegated to {}", dir.display()))
    };
    Controller::ALL.into_iter().map(|controller| (controller, one(controller))).collect()
}

/// The directory of the group of this process for the controller `name` of version 1, from the texts of [`OWN`] and [`MOUNTS`].
pub(super) fn first(own: &str, mounts: &str, name: &str) -> Option<PathBuf> {
    let path = own.lines().filter_map(split).find_map(|(controllers, path)| {
        controllers.split(',').any(|it| it == name).then_some(path)
    })?;
    let has =
        |mount: &Mount| mount.version == Version::V1 && mount.options.iter().any(|it| it == name);
    mounts.lines().filter_map(Mount::of).filter(has).find_map(|mount| mount.dir_of(path))
}

/// A line of [`OWN`]: the controllers and the path.
fn split(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    rest.split_once(':')
}

/// A mounted tree.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The mounted part of the tree.
    root: PathBuf,
    /// The mount point.
    at: PathBuf,
    options: Vec<String>,
}

impl Mount {
    /// Parses a line of [`MOUNTS`]; `None` for other file systems.
    fn of(line: &str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(3);
        let (root, at) = (head.next()?, head.next()?);
        let mut tail = tail.split(' ');
        let version = match tail.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let options = tail.nth(1).unwrap_or_default().split(',').map(ToOwned::to_owned).collect();
        Some(Self { version, root: unescaped(root), at: unescaped(at), options })
    }

    /// The directory of the group with this path in the tree; `None` if the mounted part does not contain it.
    fn dir_of(&self, path: &str) -> Option<PathBuf> {
        let inside = Path::new(path).strip_prefix(&self.root).ok()?;
        // In a cgroup namespace, the paths of groups above it contain `..`.
        let above = inside.components().any(|it| it == Component::ParentDir);
        (!above).then(|| self.at.join(inside))
    }
}

/// Decodes a path of [`MOUNTS`], in which spaces and some other characters are octal numbers like `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| byte == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            bytes.push(code);
            rest = &after[3..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw
36 25 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
37 25 0:32 / /sys/fs/cgroup/cpu\\040time rw,relatime - cgroup cgroup rw,cpu,cpuacct
38 25 0:33 /docker/abc /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
";

    fn dirs(own: &str, mounts: &str) -> Vec<Option<String>> {
        let found = find(own, mounts).into_iter();
        found.map(|(_, place)| Some(place.ok()?.dir.display().to_string())).collect()
    }

    #[test]
    fn controllers_of_version_1_are_found_each_in_its_tree() {
        let own = "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/\n8:pids:/docker/abc/d\n0::/\n";
        let found = find(own, FIRST);
        let dirs = dirs(own, FIRST);
        let expected = [
            Some("/sys/fs/cgroup/memory/a/b".to_owned()),
            Some("/sys/fs/cgroup/cpu time/".to_owned()),
            Some("/sys/fs/cgroup/pids/d".to_owned()),
        ];
        assert_eq!(dirs, expected);
        let cpu = found[1].1.as_ref().unwrap();
        assert_eq!(cpu.times.as_ref(), Some(&cpu.dir), "both are mounted together");
    }

    #[test]
    fn group_that_is_not_below_what_is_mounted_is_not_found() {
        let own = "4:memory:/../other\n2:cpu,cpuacct:/x\n8:pids:/docker/other\n";
        assert_eq!(dirs(own, FIRST), [None, Some("/sys/fs/cgroup/cpu time/x".into()), None]);
        for (_, place) in find("", "") {
            assert!(place.unwrap_err().contains("is mounted"));
        }
    }

    #[test]
    fn controllers_of_version_2_are_those_that_were_handed_on() {
        let root = std::env::temp_dir().join(format!("rosemary-place-{}", std::process::id()));
        let dir = root.join("user.slice/own");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(AVAILABLE), "memory pids\n").unwrap();
        let mounts = format!("30 25 0:27 / {} rw - cgroup2 cgroup2 rw,nsdelegate", root.display());
        let found = find("0::/user.slice/own\n", &mounts);
        fs::remove_dir_all(&root).unwrap();
        let place = found[0].1.as_ref().unwrap();
        assert_eq!((place.version, &place.dir, &place.times), (Version::V2, &dir, &None));
        let why = found[1].1.as_ref().unwrap_err();
        assert!(why.contains("cpu was not delegated"), "{why}");
        assert!(found[2].1.is_ok());
    }

    #[test]
    fn nonsense_is_no_place() {
        for text in ["", "\n\n", "::::", "a - b - c", " - cgroup", "1 2 3 4 - cgroup2", "\\04 - \\"]
        {
            assert!(find(text, text).iter().all(|(_, place)| place.is_err()), "{text:?}");
        }
    }
}
