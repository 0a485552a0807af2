//! Writes key files completely or not at all, with their final mode from the first byte on.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// A file to be written.
pub(crate) struct New<'a> {
    pub(crate) path: PathBuf,
    pub(crate) content: &'a str,
    /// Whether only the owner may read it.
    pub(crate) secret: bool,
}

/// Creates `dir` with mode 0700, and its missing parents.
///
/// # Errors
/// It cannot be created, or it exists and other users may write to it.
pub(crate) fn make_dir(dir: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot create the directory {}", dir.display());
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
        bail!("other users may write to {dir} and could replace the keys; type: chmod go-w {dir}");
    }
    Ok(())
}

/// Writes `files`. Without `force`, none of them may exist; `consequence` says what replacing them means.
///
/// Existing files are replaced only after all new ones have been written beside them.
///
/// # Errors
/// A file exists or cannot be written.
pub(crate) fn write(files: &[New<'_>], force: bool, consequence: &str) -> anyhow::Result<()> {
    if !force && let Some(there) = files.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        bail!("{} exists already; --force replaces it. {consequence}", there.path.display());
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
        _ => {} // an interrupted command may have left it
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
    fn existing_file_is_replaced_only_with_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        let file = |content| [New { path: path.clone(), content, secret: true }];
        write(&file("one"), false, "").unwrap();
        let error = write(&file("two"), false, "").unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write(&file("two"), true, "").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn directory_writable_by_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pki = dir.path().join("a/b/pki");
        make_dir(&pki).unwrap();
        assert_eq!(std::fs::metadata(&pki).unwrap().mode() & 0o777, 0o700);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&pki, mode).unwrap();
        assert!(make_dir(&pki).unwrap_err().to_string().contains("chmod go-w"));
    }
}
