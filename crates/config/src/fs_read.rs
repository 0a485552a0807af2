//! Checks `fs.read:PATH`, which grants an app a file, or a directory with everything below it. The zone mounts it at the
//! same path; the kernel is not involved.

use std::path::{Component, Path, PathBuf};

/// Describes its form, for error messages.
pub(super) const FORM: &str = "\"fs.read:PATH\" (an absolute path without `..`, not in /proc, /sys, /dev \
                               or /app, and not /tmp itself)";

/// Directories that cannot be granted: the system's own state, also by other paths, and the zone's own
/// directories.
const NEVER: [&str; 4] = ["proc", "sys", "dev", "app"];

/// Returns the path that `text` grants; `None` if it has another form.
pub(super) fn path_of(text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("fs.read:")?;
    let path = Path::new((!path.contains(sys::text::is_hidden)).then_some(path)?);
    let mut components = path.components();
    let absolute = components.next() == Some(Component::RootDir);
    let names: Option<Vec<&str>> = components
        .map(|it| match it {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    names?;
    (absolute && !is_hidden(path)).then(|| path.components().collect())
}

/// Whether each app has another directory at this absolute path, or at one above it, or must not see it. Paths below `/tmp` are
/// shown in the app's own `/tmp`: Rosemary itself may be there.
pub fn is_hidden(path: &Path) -> bool {
    if path.starts_with("/tmp") {
        return path == Path::new("/tmp");
    }
    match path.components().nth(1) {
        Some(Component::Normal(first)) => NEVER.iter().any(|never| first == *never),
        _ => true,
    }
}

/// Returns why an app may not read `path`, by its present target; the zone checks again when it
/// starts. `own` are Rosemary's directories with keys and sockets.
pub fn why_not(path: &Path, own: &[PathBuf]) -> Option<String> {
    let own: Vec<PathBuf> = own.iter().map(|dir| real(dir)).collect();
    let why = sys::sandbox::reason_not_grantable(&real(path), &own)?;
    Some(format!("fs.read:{}: {why}", path.display()))
}

/// Resolves the existing part of a path.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_normal_paths_are_accepted() {
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
            "fs.read:/tmp",
            "fs.read:/app",
            "fs.read:/etc/a\nb",
            "fs.write:/etc/hosts",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn own_directories_are_refused_by_any_path() {
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
