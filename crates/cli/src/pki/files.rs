//! Files of keys: made whole or not at all, and closed to others before the first byte is in them.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// A file to be written.
pub(crate) struct New<'a> {
    pub(crate) path: PathBuf,
    pub(crate) content: &'a str,
    /// For its owner alone.
    pub(crate) secret: bool,
}

/// Makes `dir`, closed to others, and those above it.
///
/// # Errors
/// It cannot be made, or is there and others may write to it.
pub(crate) fn make_dir(dir: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot make the directory {}", dir.display());
    if let Some(above) = dir.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above).with_context(cannot)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(cannot);
        }
        _ => {}
    }
    let metadata = std::fs::metadata(dir).with_context(cannot)?;
    if metadata.mode() & 0o022 != 0 {
        let dir = dir.display();
        bail!(
            "others may write to {dir}, and could put keys of theirs there; type: chmod go-w {dir}"
        );
    }
    Ok(())
}

/// Writes `files`; unless `force` is given none of them may be there.
///
/// Nothing that was there is touched before everything new has been written beside it.
///
/// # Errors
/// One is there, or cannot be written.
pub(crate) fn write(files: &[New<'_>], force: bool) -> anyhow::Result<()> {
    if !force && let Some(there) = files.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        bail!("{} is there already; --force replaces it", there.path.display());
    }
    let beside = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        PathBuf::from(name)
    };
    for file in files {
        let path = beside(&file.path);
        write_one(&path, file).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for file in files {
        let renamed = std::fs::rename(beside(&file.path), &file.path);
        renamed.with_context(|| format!("cannot write {}", file.path.display()))?;
    }
    Ok(())
}

fn write_one(path: &Path, new: &New<'_>) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // of a command that was interrupted
    }
    let mode = if new.secret { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(new.content.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_replaced_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        let file = |content| [New { path: path.clone(), content, secret: true }];
        write(&file("one"), false).unwrap();
        let error = write(&file("two"), false).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write(&file("two"), true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn directory_is_closed_to_others_and_one_that_is_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pki = dir.path().join("a/b/pki");
        make_dir(&pki).unwrap();
        assert_eq!(std::fs::metadata(&pki).unwrap().mode() & 0o777, 0o700);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&pki, mode).unwrap();
        assert!(make_dir(&pki).unwrap_err().to_string().contains("chmod go-w"));
    }
}
