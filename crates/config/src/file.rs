//! Finds the file of the configuration, and reads its text.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::suggestion::nearest;

/// The configuration of an instance that root started.
pub const SYSTEM_CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// Maximum size of a configuration, in bytes.
const LONGEST: u64 = 256 * 1024;

/// Returns the path of the default configuration.
pub fn default_file() -> Option<PathBuf> {
    if sys::process::is_root() {
        return Some(SYSTEM_CONFIG.into());
    }
    user_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("rosemary.toml"))
}

/// Returns Rosemary's directory below the directory in the variable `xdg` (XDG Base Directory
/// Specification), or else below `home_dir` in the home directory; `None` without a home directory.
pub fn user_dir(xdg: &str, home_dir: &str) -> Option<PathBuf> {
    user_dir_of(std::env::var_os(xdg), std::env::var_os("HOME"), home_dir)
}

fn user_dir_of(xdg: Option<OsString>, home: Option<OsString>, home_dir: &str) -> Option<PathBuf> {
    // The specification says that a relative path counts as unset.
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let dir = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(home_dir)))?;
    Some(dir.join("rosemary"))
}

/// Returns the `runtime-dir` of a file that may contain mistakes, for a command that only has to find the instance. A key
/// with a similar name counts if there is no such key: it is the mistake.
#[must_use]
pub fn runtime_dir_of(file: &Path) -> Option<PathBuf> {
    let text = read(file).ok()?;
    let entry = |line: &str| {
        let table = DeTable::parse(line).ok()?;
        let (key, value) = table.get_ref().iter().next()?;
        Some((key.get_ref().to_string(), value.get_ref().as_str()?.to_owned()))
    };
    let entries: Vec<(String, String)> = text.lines().filter_map(entry).collect();
    let exact = entries.iter().find(|(key, _)| key == "runtime-dir");
    let similar = || entries.iter().find(|(key, _)| nearest(key, ["runtime-dir"]).is_some());
    let (_, dir) = exact.or_else(similar)?;
    let file = std::path::absolute(file).ok()?;
    Some(file.parent()?.join(dir))
}

/// Reads the text of the file at `path`.
pub(super) fn read(path: &Path) -> io::Result<String> {
    // A pipe in its place must not block the monitor.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    // An empty pipe must not count as an empty configuration.
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe, which may block; name a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn named_file_must_exist_and_be_text() {
        assert!(Config::load(Some(Path::new("/nowhere.toml"))).is_err());
        assert_eq!(Config::load(Some(Path::new("/dev/null"))).unwrap().apps, None);
        let endless = Config::load(Some(Path::new("/dev/zero"))).unwrap_err();
        assert!(std::error::Error::source(&endless).unwrap().to_string().contains("longer than"));
    }

    #[test]
    fn directory_of_a_user_follows_xdg() {
        let of = |xdg: Option<&str>, home: Option<&str>| {
            user_dir_of(xdg.map(Into::into), home.map(Into::into), ".config")
        };
        assert_eq!(of(Some("/x"), Some("/home/u")).unwrap(), Path::new("/x/rosemary"));
        let dir = of(Some("x"), Some("/home/u")).unwrap();
        assert_eq!(dir, Path::new("/home/u/.config/rosemary"), "a relative path counts as unset");
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn pipe_instead_of_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("rosemary.toml");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let refused = || {
            let error = Config::load(Some(&pipe)).unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert_eq!(source, "it is a pipe, which may block; name a regular file");
        };
        refused();
        let both = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        refused();
        io::Write::write_all(&mut &both, b"[controller]\n").unwrap();
        refused();
    }

    #[test]
    fn null_device_has_the_defaults() {
        assert_eq!(Config::load(Some(Path::new("/dev/null"))).unwrap().apps, None);
    }

    #[test]
    fn runtime_dir_is_found_in_a_file_with_mistakes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rosemary.toml");
        for (text, found) in [
            ("[controller]\nruntime-dir = \"run\"\nnonsense", Some(dir.path().join("run"))),
            ("  runtime-dir=\"/run/x\" # here\n[[app", Some("/run/x".into())),
            ("[controller]\nruntme-dir = \"/run/x\"\n", Some("/run/x".into())),
            ("runtime_dir = \"/a\"\nruntime-dir = \"/b\"\n", Some("/b".into())),
            ("state-dir = \"/a\"\n", None),
            ("runtime-dir = 7\n", None),
            ("", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(runtime_dir_of(&file), found, "{text}");
        }
        assert_eq!(runtime_dir_of(&dir.path().join("missing")), None);
    }
}
