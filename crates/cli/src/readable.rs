//! Checks before the start that apps can read what a command grants them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use config::fs_read::{is_hidden, real};
use monitor::users;

/// Others may search a directory.
const SEARCH: u32 = 0o1;

/// Others may read a file, or list a directory.
const READ: u32 = 0o4;

/// Checks that an app may read `path`, which exists; `moves` is what the operator should move otherwise.
///
/// # Errors
/// Every app has another directory of this name, such as `/tmp`.
pub(crate) fn ensure_grantable(path: &Path, moves: &Path) -> anyhow::Result<()> {
    ensure!(
        !is_hidden(path) && !is_hidden(&real(path)),
        "no app may read {}, as each app has a directory {} of its own; move {} to another directory",
        path.display(),
        path.components().take(2).collect::<std::path::PathBuf>().display(),
        moves.display()
    );
    Ok(())
}

/// Checks that the user of an app may read the file or directory `path`.
///
/// # Errors
/// Its mode does not allow it, or it is missing.
pub(crate) fn ensure_readable(path: &Path) -> anyhow::Result<()> {
    ensure_mode(path, users::are_separate()?)
}

/// Like [`ensure_readable`]; apps have users of their own if `are_separate`.
fn ensure_mode(path: &Path, are_separate: bool) -> anyhow::Result<()> {
    let about = path.metadata().with_context(|| format!("cannot examine {}", path.display()))?;
    if !are_separate {
        let read = if about.is_dir() {
            std::fs::read_dir(path).map(drop)
        } else {
            std::fs::File::open(path).map(drop)
        };
        return read.with_context(|| format!("no app may read {}", path.display()));
    }
    let needed = if about.is_dir() { READ | SEARCH } else { READ };
    ensure!(
        about.mode() & needed == needed,
        "no app may read {} by its mode, as each app has a user of its own; type: chmod {} {}",
        path.display(),
        if about.is_dir() { "o+rx" } else { "o+r" },
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn mode_decides_whether_other_users_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("faucet.yaml");
        std::fs::write(&file, "").unwrap();
        for (path, mode, remedy) in [
            (&*file, 0o600, Some("chmod o+r ")),
            (&*file, 0o644, None),
            (dir.path(), 0o700, Some("chmod o+rx ")),
            (dir.path(), 0o711, Some("chmod o+rx ")),
            (dir.path(), 0o755, None),
        ] {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let error = ensure_mode(path, true).err().map(|it| it.to_string());
            let remedy = remedy.map(|it| format!("{it}{}", path.display()));
            match (error, remedy) {
                (Some(error), Some(remedy)) => assert!(error.ends_with(&remedy), "{error}"),
                (error, remedy) => assert_eq!(error, remedy),
            }
            ensure_mode(path, false).expect("the own user may");
        }
    }

    #[test]
    fn directory_that_each_app_has_cannot_be_granted() {
        let tmp = Path::new("/tmp");
        let error = ensure_grantable(tmp, tmp).unwrap_err().to_string();
        assert!(error.contains("a directory /tmp of its own; move "), "{error}");
        let dir = tempfile::tempdir_in(tmp).unwrap();
        ensure_grantable(dir.path(), dir.path()).unwrap();
        ensure_grantable(Path::new("/usr/lib"), Path::new("/usr/lib")).unwrap();
        assert!(ensure_grantable(Path::new("/"), Path::new("/x")).is_err());
    }
}
