//! Reads the controller's TLS keys once, has them checked, and keeps them in sealed memory for the kernels and the HTTP interface.
//!
//! ```text
//! /etc/rosemary/pki/             made by `rosemary pki init`; writable by root alone
//!     ca-cert.pem                the authorities whose certificates switches may present
//!     controller-cert.pem        the certificate that the controller presents to switches
//!     controller-key.pem         its key, 0600
//!     api/                       made by `rosemary pki api`
//!         ca-cert.pem            the authorities whose certificates users of the HTTP interface may present
//!         cert.pem               the certificate that the controller presents to them
//!         key.pem                its key, 0600
//!         revoked.json           the users whose certificates were revoked, if any: { "format": 1, "users": [ ... ] }
//! ```
//!
//! The monitor checks the owner and the mode of the files and copies them into sealed memory. It does not parse them:
//! `rosemary-security`, a confined process, checks this memory at the start, so that the operator sees a mistake before
//! a client does. Every kernel receives the same memory, and every process of the HTTP interface that of its own keys.
//!
//! Keys that are replaced later take effect at the next start. The list of revoked users is read again whenever
//! `rosemary pki revoke-user` has changed it.

mod revoked;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use config::Config;
use control::northbound::RevokedUser;
use control::security::{KeyFile, KeyPurpose, SecurityReply, SecurityRequest};
use tracing::{info, warn};
use zeroize::Zeroizing;

use crate::error::StartError;
use crate::installation::Installation;
use crate::one_shot;
use crate::users::Users;
use config::instance::TlsDir;

pub use self::revoked::{MOST_REVOKED, REVOKED, keep_revoked, read_revoked, revoked_text};

/// The file with the authorities for switches.
pub const CA_CERT: &str = "ca-cert.pem";

/// The file with the key of that authority. Only the commands that make certificates read it.
pub const CA_KEY: &str = "ca-key.pem";

/// The file with the controller's certificate.
pub const CONTROLLER_CERT: &str = "controller-cert.pem";

/// The file with the controller's private key.
pub const CONTROLLER_KEY: &str = "controller-key.pem";

/// The directory of the keys for the HTTP interface, in that of the keys for switches.
pub const API_DIR: &str = "api";

/// The file with the certificate of the HTTP interface.
pub const API_CERT: &str = "cert.pem";

/// The file with the private key of the HTTP interface.
pub const API_KEY: &str = "key.pem";

/// The number of files of a set, and of descriptors that a process receives for them.
pub(crate) const FDS: usize = 3;

/// The files, in the order in which processes receive them.
const FILES: [KeyFile; FDS] = [KeyFile::Certificate, KeyFile::Key, KeyFile::Authorities];

/// The longest file in bytes, which holds hundreds of certificates.
const MAX_FILE: usize = 1 << 20;

/// A set of keys in sealed memory, as every process receives it.
#[derive(Debug)]
pub(crate) struct SealedKeys([OwnedFd; FDS]);

impl SealedKeys {
    /// The descriptors for a process: certificate, key, authorities.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|fd| fd.as_fd())
    }
}

/// The keys of the HTTP interface, and what makes certificates of its users invalid.
#[derive(Debug)]
pub(crate) struct UserKeys {
    /// The keys.
    pub(crate) keys: SealedKeys,
    /// Their directory.
    pub(crate) dir: PathBuf,
    /// The users whose certificates were revoked.
    pub(crate) revoked: Vec<RevokedUser>,
}

impl UserKeys {
    /// Reads the list of revoked users again. If that fails, the earlier list stays in effect. A revocation that the file has
    /// no more also stays in effect: a file that was lost or replaced must not make certificates valid again.
    ///
    /// # Errors
    /// [`StartError::Keys`]: the file cannot be read, or is damaged.
    pub(crate) fn read_revoked(&mut self) -> Result<(), StartError> {
        let mut users = read_revoked(&self.dir)?;
        for name in keep_revoked(&mut users, &self.revoked) {
            let dir = self.dir.display();
            warn!(%name, %dir, "{REVOKED} has lost a revoked user, who stays revoked until Rosemary is started again; \
                type: rosemary pki revoke-user NAME");
        }
        self.revoked = users;
        Ok(())
    }
}

/// Reads the keys in the directory that the operator means and has them checked. Returns `None` if the
/// operator named no directory and the default one does not exist.
///
/// # Errors
/// [`StartError::Keys`]. Once a directory exists, its files must be right: without TLS the controller would
/// silently not serve the switches that use it. A directory with keys for the HTTP interface alone causes a warning.
pub(crate) fn load(dir: &TlsDir, config: &Config) -> Result<Option<SealedKeys>, StartError> {
    let Some(path) = dir.resolve(config) else {
        info!("TLS was off, because neither XDG_CONFIG_HOME nor HOME names a directory for keys");
        return Ok(None);
    };
    if dir.named(config).is_none() && is_missing(&path) {
        let dir = path.display();
        info!(%dir, "TLS was off, because no keys exist; `rosemary pki init` creates them");
        return Ok(None);
    }
    let has_any =
        FILES.iter().any(|file| !is_missing(&path.join(file_name(KeyPurpose::Switches, *file))));
    if !has_any && !is_missing(&path.join(API_DIR)) {
        let dir = path.display();
        warn!(%dir, "TLS was off for switches, because only keys for the HTTP interface exist; `rosemary pki init` creates the others");
        return Ok(None);
    }
    let keys = seal(&path, KeyPurpose::Switches)?;
    check(&path, KeyPurpose::Switches, &keys, &Installation::security()?)?;
    info!(dir = %path.display(), "TLS was set up");
    Ok(Some(keys))
}

/// Reads the keys of the HTTP interface, which listens at `address`, and has them checked.
///
/// # Errors
/// [`StartError::NorthboundNeedsKeys`] if there are none, otherwise [`StartError::Keys`].
pub(crate) fn load_for_users(
    dir: &TlsDir,
    config: &Config,
    address: SocketAddr,
) -> Result<UserKeys, StartError> {
    let path = dir.resolve(config).map(|dir| dir.join(API_DIR));
    let Some(dir) = path.filter(|path| !is_missing(path)) else {
        let dir = dir.resolve(config).unwrap_or_else(|| PathBuf::from("DIR"));
        return Err(StartError::NorthboundNeedsKeys { address, dir });
    };
    let keys = seal(&dir, KeyPurpose::Users)?;
    check(&dir, KeyPurpose::Users, &keys, &Installation::security()?)?;
    let revoked = read_revoked(&dir)?;
    info!(dir = %dir.display(), "TLS was set up for the HTTP interface");
    Ok(UserKeys { keys, dir, revoked })
}

fn is_missing(dir: &Path) -> bool {
    matches!(std::fs::metadata(dir), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

fn file_name(purpose: KeyPurpose, file: KeyFile) -> &'static str {
    match (purpose, file) {
        (_, KeyFile::Authorities) => CA_CERT,
        (KeyPurpose::Switches, KeyFile::Certificate) => CONTROLLER_CERT,
        (KeyPurpose::Switches, KeyFile::Key) => CONTROLLER_KEY,
        (KeyPurpose::Users, KeyFile::Certificate) => API_CERT,
        (KeyPurpose::Users, KeyFile::Key) => API_KEY,
    }
}

/// Copies the files in `dir` into sealed memory.
fn seal(dir: &Path, purpose: KeyPurpose) -> Result<SealedKeys, StartError> {
    check_directory(dir, purpose)?;
    let sealed = FILES.map(|file| {
        let path = dir.join(file_name(purpose, file));
        let bytes = read_file(&path, purpose, file == KeyFile::Key)?;
        sys::shm::sealed_copy("rosemary-keys", &bytes)
            .map_err(|source| StartError::System { what: "keep the keys in memory", source })
    });
    let [certificate, key, authorities] = sealed;
    Ok(SealedKeys([certificate?, key?, authorities?]))
}

/// Has `program`, which is `rosemary-security`, check the keys that were read from `dir`.
fn check(
    dir: &Path,
    purpose: KeyPurpose,
    keys: &SealedKeys,
    program: &Path,
) -> Result<(), StartError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let run_as = Users::find()?.for_nobody();
    let request = SecurityRequest::CheckKeys { run_as, purpose, now };
    let fds: Vec<_> = keys.fds().collect();
    let unknown = |source| StartError::System { what: "check the keys for TLS", source };
    match one_shot::request(program, &request, &fds).map_err(unknown)? {
        SecurityReply::KeysUsable { warning } => {
            if let Some(why) = warning {
                let file = dir.join(file_name(purpose, KeyFile::Certificate));
                let file = file.display();
                match purpose {
                    KeyPurpose::Switches => {
                        warn!(%file, why, "switches will not accept the controller's certificate, now or soon");
                    }
                    KeyPurpose::Users => {
                        let hint = "`rosemary pki api NAME --force` makes a new one";
                        warn!(%file, why, hint, "clients will not accept the certificate of the HTTP interface, now or soon");
                    }
                }
            }
            Ok(())
        }
        SecurityReply::KeysUnusable { file, why } => {
            Err(StartError::Keys { path: dir.join(file_name(purpose, file)), why })
        }
        SecurityReply::Failed { why } => Err(unknown(io::Error::other(why))),
        SecurityReply::Signed(_)
        | SecurityReply::Refused { .. }
        | SecurityReply::Backtrace { .. } => {
            Err(unknown(io::Error::other("rosemary-security replied to another request")))
        }
    }
}

/// Checks that only root and this user may write to the directory: who can write there can admit switches or users.
fn check_directory(dir: &Path, purpose: KeyPurpose) -> Result<(), StartError> {
    let metadata = std::fs::metadata(dir).map_err(|error| refusal(dir, purpose, &error))?;
    if !metadata.is_dir() {
        return Err(fault(dir, "it is not a directory".into()));
    }
    check_writers(dir, &metadata)
}

fn read_file(
    path: &Path,
    purpose: KeyPurpose,
    secret: bool,
) -> Result<Zeroizing<Vec<u8>>, StartError> {
    let refusal = |error: &io::Error| refusal(path, purpose, error);
    // Opening a pipe or a device in the file's place must not block the monitor.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    let file = opened.map_err(|error| refusal(&error))?;
    // Of the open file, because the name may lead elsewhere by now.
    let metadata = file.metadata().map_err(|error| refusal(&error))?;
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
    // The buffer never grows: growing would leave copies of the key in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE + 1));
    read_at_most(&file, &mut bytes).map_err(|error| refusal(&error))?;
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

fn refusal(path: &Path, purpose: KeyPurpose, error: &io::Error) -> StartError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => missing(path, purpose),
        io::ErrorKind::PermissionDenied => {
            "it cannot be read by the user who starts Rosemary".to_owned()
        }
        _ => error.to_string(),
    };
    fault(path, why)
}

/// Says that a file or the directory is missing, and which command makes it without replacing what need not be replaced.
fn missing(path: &Path, purpose: KeyPurpose) -> String {
    let names = FILES.map(|file| file_name(purpose, file));
    let is_file = path.file_name().is_some_and(|it| names.iter().any(|name| it == *name));
    let dir = if is_file { path.parent().unwrap_or(path) } else { path };
    let has = |name: &str| !is_missing(&dir.join(name));
    let has_any = names.iter().chain([&CA_KEY]).any(|name| has(name));
    let has_authority = has(CA_CERT) && has(CA_KEY);
    let pki = match purpose {
        KeyPurpose::Switches => dir,
        KeyPurpose::Users => dir.parent().unwrap_or(dir),
    };
    let pki = pki.display();
    let back = "it is missing; put it back, as from a backup";
    match purpose {
        KeyPurpose::Switches if !has_any => {
            format!("it is missing; `rosemary pki init --dir '{pki}'` creates all files")
        }
        KeyPurpose::Switches if has_authority => {
            format!(
                "{back}, or make a new one with `rosemary pki controller --force --dir '{pki}'`"
            )
        }
        KeyPurpose::Switches => format!(
            "{back}; if it is lost, `rosemary pki init --force --dir '{pki}'` makes a new authority, and every switch needs a new \
             certificate"
        ),
        KeyPurpose::Users if has_authority || !has_any => format!(
            "it is missing; `rosemary pki api NAME --force --dir '{pki}'` creates the files of the HTTP interface"
        ),
        KeyPurpose::Users => format!(
            "{back}; if it is lost, `rosemary pki api NAME --new-authority --dir '{pki}'` makes a new authority, and every user needs a \
             new certificate"
        ),
    }
}

fn fault(path: &Path, why: String) -> StartError {
    StartError::Keys { path: PathBuf::from(path), why }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A directory whose files hold their own names.
    pub(super) fn keys() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        for (name, mode) in [(CONTROLLER_CERT, 0o644), (CONTROLLER_KEY, 0o600), (CA_CERT, 0o644)] {
            write(&dir.path().join(name), name.as_bytes(), mode);
        }
        dir
    }

    pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) {
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refused(dir: &Path) -> String {
        seal(dir, KeyPurpose::Switches).unwrap_err().to_string()
    }

    #[test]
    fn sealed_files_keep_their_order() {
        let SealedKeys(fds) = seal(keys().path(), KeyPurpose::Switches).unwrap();
        let read = |fd| String::from_utf8(sys::shm::read_sealed(fd, MAX_FILE).unwrap()).unwrap();
        assert_eq!(fds.map(read), [CONTROLLER_CERT, CONTROLLER_KEY, CA_CERT]);
    }

    #[test]
    fn unchecked_keys_are_not_used() {
        let dir = keys();
        let keys = seal(dir.path(), KeyPurpose::Switches).unwrap();
        // A program that exits without a reply.
        let error =
            check(dir.path(), KeyPurpose::Switches, &keys, Path::new("/bin/true")).unwrap_err();
        assert!(
            matches!(error, StartError::System { what: "check the keys for TLS", .. }),
            "{error}"
        );
    }

    #[test]
    fn missing_named_directory_is_an_error() {
        let dir = TlsDir { tls_dir: Some("/nowhere".into()) };
        let error = load(&dir, &Config::default()).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("rosemary pki init"), "{error}");
    }

    #[test]
    fn missing_keys_of_the_http_interface_name_the_command() {
        let dir = keys();
        let tls = TlsDir { tls_dir: Some(dir.path().to_owned()) };
        let address = "192.0.2.1:8181".parse().unwrap();
        let load = || load_for_users(&tls, &Config::default(), address).unwrap_err().to_string();
        let error = load();
        let command = format!("rosemary pki api 192.0.2.1 --dir {}", dir.path().display());
        assert!(error.contains(&command) && error.contains("127.0.0.1:8181"), "{error}");
        std::fs::create_dir(dir.path().join(API_DIR)).unwrap();
        let error = load();
        assert!(error.contains(API_CERT) && error.contains("rosemary pki api"), "{error}");
    }

    #[test]
    fn keys_of_the_http_interface_alone_leave_tls_for_switches_off() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(API_DIR)).unwrap();
        let tls = TlsDir { tls_dir: Some(dir.path().to_owned()) };
        assert!(load(&tls, &Config::default()).unwrap().is_none());
        write(&dir.path().join(CA_CERT), b"x", 0o644);
        load(&tls, &Config::default()).unwrap_err();
    }

    #[test]
    fn missing_file_is_named_with_the_command_that_makes_it() {
        for (name, has_ca_key, command) in [
            (CA_CERT, true, "rosemary pki init --force --dir"),
            (CONTROLLER_CERT, true, "rosemary pki controller --force --dir"),
            (CONTROLLER_KEY, true, "rosemary pki controller --force --dir"),
            (CONTROLLER_KEY, false, "rosemary pki init --force --dir"),
        ] {
            let dir = keys();
            if has_ca_key {
                write(&dir.path().join(CA_KEY), b"key", 0o600);
            }
            std::fs::remove_file(dir.path().join(name)).unwrap();
            let error = refused(dir.path());
            let command = format!("{command} '{}'", dir.path().display());
            assert!(error.contains(name) && error.contains(&command), "{error}");
        }
        let empty = tempfile::tempdir().unwrap();
        let error = refused(empty.path());
        assert!(error.contains("rosemary pki init --dir"), "{error}");
    }

    #[test]
    fn key_readable_by_others_is_refused() {
        for mode in [0o640, 0o604, 0o644] {
            let dir = keys();
            let path = dir.path().join(CONTROLLER_KEY);
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = refused(dir.path());
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn files_writable_by_others_are_refused() {
        for name in [CA_CERT, CONTROLLER_CERT, ""] {
            let dir = keys();
            let path = dir.path().join(name);
            std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
            let error = refused(dir.path());
            assert!(error.contains("chmod go-w"), "{error}");
        }
    }

    #[test]
    fn file_that_is_too_long_is_refused() {
        let dir = keys();
        write(&dir.path().join(CA_CERT), &vec![b'x'; MAX_FILE + 1], 0o644);
        assert!(refused(dir.path()).contains("longer than"));
    }
}
