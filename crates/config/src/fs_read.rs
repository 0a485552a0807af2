//! `fs.read:PATH`: a file or a directory that an app may read, with all below it. Its zone sees it, by
//! the same path, and the kernel has nothing to do with it.

use std::path::{Component, Path, PathBuf};

/// How it looks, for messages.
pub(super) const FORM: &str = "\"fs.read:PATH\" (an absolute path without `..`, not in /proc, /sys, /dev, \
                               /tmp or /app)";

/// By which names no app is shown anything: the system's own state, which it is not shown by other names
/// either, and what a zone has of its own.
const NEVER: [&str; 5] = ["proc", "sys", "dev", "tmp", "app"];

/// The path that `text` grants; `None` if it grants none.
pub(super) fn path_of(text: &str) -> Option<PathBuf> {
    let path = Path::new(text.strip_prefix("fs.read:")?);
    let mut components = path.components();
    let absolute = components.next() == Some(Component::RootDir);
    let names: Option<Vec<&str>> = components
        .map(|it| match it {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let first = *names?.first()?;
    (absolute && !NEVER.contains(&first)).then(|| path.components().collect())
}

/// Why an app may not read `path`, if it may not, for where it leads now: the zone looks again when it
/// starts. `own` are directories of Rosemary's, in which there are keys and sockets.
pub fn why_not(path: &Path, own: &[PathBuf]) -> Option<String> {
    let own: Vec<PathBuf> = own.iter().map(|dir| real(dir)).collect();
    let why = sys::sandbox::reason_not_grantable(&real(path), &own)?;
    Some(format!("fs.read:{}: {why}", path.display()))
}

/// Where a path leads, as far as it is there.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_lead_nowhere_else() {
        let of = |text: &str| path_of(text).map(|path| path.display().to_string());
        assert_eq!(of("fs.read:/etc/hosts").as_deref(), Some("/etc/hosts"));
        assert_eq!(of("fs.read:/usr/share//geoip/./").as_deref(), Some("/usr/share/geoip"));
        for text in [
            "fs.read",
            "fs.read:",
            "fs.read:/",
            "fs.read:etc/hosts",
            "fs.read:/etc/../root",
            "fs.read:/proc",
            "fs.read:/proc/1/environ",
            "fs.read:/dev/mem",
            "fs.read:/sys/kernel",
            "fs.read:/tmp/x",
            "fs.read:/app",
            "fs.write:/etc/hosts",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_rosemarys_own_is_not_shown_by_any_way_there() {
        let dir = tempfile::tempdir().unwrap();
        let keys = dir.path().join("pki");
        std::fs::create_dir(&keys).unwrap();
        std::fs::write(dir.path().join("data"), "").unwrap();
        std::os::unix::fs::symlink(&keys, dir.path().join("link")).unwrap();
        let own = [keys.clone()];
        for path in [&*keys, dir.path(), &keys.join("ca-key.pem"), &dir.path().join("link")] {
            let why = why_not(path, &own).unwrap_or_else(|| panic!("{}", path.display()));
            assert!(why.contains("Rosemary's own"), "{why}");
        }
        assert_eq!(why_not(&dir.path().join("data"), &own), None);
        std::os::unix::fs::symlink("/proc/1", dir.path().join("one")).unwrap();
        let why = why_not(&dir.path().join("one/environ"), &own).unwrap();
        assert!(why.contains("the system's own state"), "{why}");
    }
}
