//! The keys for TLS: read once from their files, checked, and kept in sealed memory for the kernels.
//!
//! ```text
//! /etc/rosemary/pki/             made by `rosemary pki init`; writable by root alone
//!     ca-cert.pem                whose certificates switches may show
//!     controller-cert.pem        what we show switches
//!     controller-key.pem         its key, 0600
//! ```
//!
//! What is read is checked at once, so that a mistake is told to the operator and not to a switch.
//! Keys that are replaced are used from the next start on.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kernel::tls::keys::{Keys, MAX_FILE, Which};
use tracing::{info, warn};
use zeroize::Zeroizing;

use crate::config::Config;
use crate::error::StartError;
use crate::options::TlsDir;

/// The file with the authorities for switches.
pub const CA_CERT: &str = "ca-cert.pem";

/// The file with the controller's certificate.
pub const CONTROLLER_CERT: &str = "controller-cert.pem";

/// The file with the controller's private key.
pub const CONTROLLER_KEY: &str = "controller-key.pem";

/// Descriptors that a kernel gets with its start besides the listening sockets.
pub(crate) const FDS: usize = 3;

/// The keys, as every kernel gets them.
#[derive(Debug)]
pub(crate) struct SealedKeys([OwnedFd; FDS]);

impl SealedKeys {
    /// What goes to a kernel.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|fd| fd.as_fd())
    }
}

/// Reads the keys in the directory that is meant. `None` if there is none, and none was named.
///
/// # Errors
/// [`StartError::Keys`]: a directory that is there must be right, as nobody would notice that
/// switches are not served as was meant.
pub(crate) fn load(dir: &TlsDir, config: &Config) -> Result<Option<SealedKeys>, StartError> {
    let Some(path) = dir.resolve(config) else {
        info!("TLS was off: neither XDG_CONFIG_HOME nor HOME says where keys could be");
        return Ok(None);
    };
    if dir.named(config).is_none() && is_missing(&path) {
        let dir = path.display();
        info!(%dir, "TLS was off, as there are no keys; `rosemary pki init` makes some");
        return Ok(None);
    }
    let keys = read(&path)?;
    let place = |which| {
        path.join(match which {
            Which::Certificate => CONTROLLER_CERT,
            Which::Key => CONTROLLER_KEY,
            Which::Authorities => CA_CERT,
        })
    };
    keys.check().map_err(|error| StartError::Keys { path: place(error.which), why: error.why })?;
    if let Some(why) = keys.doubts(SystemTime::now()) {
        let file = place(Which::Certificate);
        let file = file.display();
        warn!(%file, why, "switches will not accept the controller's certificate, now or soon");
    }
    info!(dir = %path.display(), "TLS was set up");
    let fds = keys
        .to_fds()
        .map_err(|source| StartError::System { what: "keep the keys in memory", source })?;
    Ok(Some(SealedKeys(fds)))
}

fn is_missing(dir: &Path) -> bool {
    matches!(std::fs::metadata(dir), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

fn read(dir: &Path) -> Result<Keys, StartError> {
    check_directory(dir)?;
    Ok(Keys {
        certificate: std::mem::take(&mut *read_file(&dir.join(CONTROLLER_CERT), false)?),
        key: read_file(&dir.join(CONTROLLER_KEY), true)?,
        authorities: std::mem::take(&mut *read_file(&dir.join(CA_CERT), false)?),
    })
}

/// Who may write to the directory decides who is a switch.
fn check_directory(dir: &Path) -> Result<(), StartError> {
    let metadata = std::fs::metadata(dir).map_err(|error| refusal(dir, &error))?;
    if !metadata.is_dir() {
        return Err(fault(dir, "it is not a directory".into()));
    }
    check_writers(dir, &metadata)
}

fn read_file(path: &Path, secret: bool) -> Result<Zeroizing<Vec<u8>>, StartError> {
    // A pipe or a device in the file's place must not keep the monitor waiting.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    let file = opened.map_err(|error| refusal(path, &error))?;
    // Of what was opened, not of what bears its name now.
    let metadata = file.metadata().map_err(|error| refusal(path, &error))?;
    if !metadata.is_file() {
        return Err(fault(path, "it is not a regular file".into()));
    }
    check_writers(path, &metadata)?;
    if secret && metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o777;
        let shown = path.display();
        return Err(fault(
            path,
            format!(
                "others may read the key (mode {mode:04o}); type: chmod 600 '{shown}', and make a \
                 new one if somebody may have"
            ),
        ));
    }
    // So large that it never grows: growing would leave copies of the key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE + 1));
    read_at_most(&file, &mut bytes).map_err(|error| refusal(path, &error))?;
    if bytes.len() > MAX_FILE {
        return Err(fault(path, format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(bytes)
}

fn read_at_most(file: &File, bytes: &mut Vec<u8>) -> io::Result<usize> {
    file.take(MAX_FILE as u64 + 1).read_to_end(bytes)
}

fn check_writers(path: &Path, metadata: &Metadata) -> Result<(), StartError> {
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(fault(path, "it belongs to another user, who could change it".into()));
    }
    if metadata.mode() & 0o022 != 0 {
        let shown = path.display();
        return Err(fault(path, format!("others may change it; type: chmod go-w '{shown}'")));
    }
    Ok(())
}

fn refusal(path: &Path, error: &io::Error) -> StartError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            "it is missing; `rosemary pki init` makes all that is needed".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "it cannot be read by the user who starts Rosemary".to_owned()
        }
        _ => error.to_string(),
    };
    fault(path, why)
}

fn fault(path: &Path, why: String) -> StartError {
    StartError::Keys { path: PathBuf::from(path), why }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A directory with keys; the authority is the certificate itself.
    fn keys() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
        write(&dir.path().join(CONTROLLER_CERT), certificate.as_bytes(), 0o644);
        write(&dir.path().join(CA_CERT), certificate.as_bytes(), 0o644);
        write(&dir.path().join(CONTROLLER_KEY), key.serialize_pem().as_bytes(), 0o600);
        dir
    }

    fn write(path: &Path, bytes: &[u8], mode: u32) {
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn loaded(dir: &Path) -> Result<Option<SealedKeys>, String> {
        load(&TlsDir { tls_dir: Some(dir.to_owned()) }, &Config::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn keys_that_fit_are_sealed_and_the_kernel_can_use_them() {
        let SealedKeys(fds) = loaded(keys().path()).unwrap().unwrap();
        let again = Keys::from_fds(fds).unwrap();
        again.check().unwrap();
        assert!(!format!("{again:?}").contains("PRIVATE"));
    }

    #[test]
    fn directory_that_was_named_and_is_missing_is_an_error() {
        let error = loaded(Path::new("/nowhere")).unwrap_err();
        assert!(error.contains("/nowhere") && error.contains("rosemary pki init"), "{error}");
    }

    #[test]
    fn each_file_that_is_missing_empty_or_something_else_is_named() {
        for name in [CA_CERT, CONTROLLER_CERT, CONTROLLER_KEY] {
            for bytes in [None, Some(""), Some("-----BEGIN NOTHING-----\n"), Some("\0\x01")] {
                let dir = keys();
                let path = dir.path().join(name);
                std::fs::remove_file(&path).unwrap();
                if let Some(bytes) = bytes {
                    write(&path, bytes.as_bytes(), 0o600);
                }
                let error = loaded(dir.path()).unwrap_err();
                assert!(error.contains(name), "{bytes:?}: {error}");
            }
        }
    }

    #[test]
    fn key_that_others_may_read_is_refused_with_what_to_type() {
        for mode in [0o640, 0o604, 0o644] {
            let dir = keys();
            let path = dir.path().join(CONTROLLER_KEY);
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = loaded(dir.path()).unwrap_err();
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn authorities_that_others_may_change_are_refused() {
        for name in [CA_CERT, ""] {
            let dir = keys();
            let path = dir.path().join(name);
            std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
            let error = loaded(dir.path()).unwrap_err();
            assert!(error.contains("chmod go-w"), "{error}");
        }
    }

    #[test]
    fn key_of_another_certificate_is_told_as_such() {
        let dir = keys();
        let other = KeyPair::generate().unwrap().serialize_pem();
        write(&dir.path().join(CONTROLLER_KEY), other.as_bytes(), 0o600);
        let error = loaded(dir.path()).unwrap_err();
        assert!(error.contains("not the key of the certificate"), "{error}");
    }

    #[test]
    fn encrypted_key_is_told_with_how_to_decrypt_it() {
        let dir = keys();
        let pem =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
        write(&dir.path().join(CONTROLLER_KEY), pem.as_bytes(), 0o600);
        let error = loaded(dir.path()).unwrap_err();
        assert!(error.contains("openssl pkey"), "{error}");
    }
    #[test]
    fn file_that_is_cut_off_or_no_base64_is_told_in_words_without_what_stands_in_it() {
        for name in [CA_CERT, CONTROLLER_CERT, CONTROLLER_KEY] {
            let dir = keys();
            let path = dir.path().join(name);
            let whole = std::fs::read_to_string(&path).unwrap();
            let cut = &whole[..whole.len() / 2];
            let spoilt = whole.replacen('\n', "\n%s3cret%", 1);
            for (bytes, why) in [(cut, "cut off"), (&spoilt, "not base64")] {
                write(&path, bytes.as_bytes(), 0o600);
                let error = loaded(dir.path()).unwrap_err();
                assert!(error.contains(name) && error.contains(why), "{error}");
                assert!(!error.contains("s3cret") && !error.contains("115, 51, 99"), "{error}");
            }
        }
    }
}
