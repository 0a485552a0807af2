//! A configuration, or a package, that a user sends over the HTTP interface.
//!
//! Both arrive in sealed memory, which the sender can no longer change. A configuration becomes the file's only after everything was
//! checked and its programs were loaded: it is written beside the file, synchronised and renamed, with the owner and mode of the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use config::{Config, reserved};
use package::MAX_PACKAGE;

use crate::error::StartError;
use crate::installation::read_file;
use crate::packages::{Gate, PackageFiles, Store};
use supervisor::change::deployment::{EarlierConfig, NewConfig};

/// The longest configuration in bytes.
const LONGEST: usize = 1 << 20;

/// Takes the text out of sealed memory.
///
/// # Errors
/// Why there is none, as a phrase.
pub(super) fn receive(fds: Vec<OwnedFd>, expected: &str) -> Result<NewConfig, String> {
    let fd = fds.into_iter().next();
    let fd = fd.ok_or(
        "a configuration can be sent over the HTTP interface alone; use `rosemary reload`",
    )?;
    let text = sys::shm::read_sealed(fd, LONGEST);
    let text = text.map_err(|error| format!("the configuration cannot be read: {error}"))?;
    let text = String::from_utf8(text).map_err(|_| "the configuration is not UTF-8 text")?;
    Ok(NewConfig { text: text.into(), expected: expected.into() })
}

/// Checks the text against the file that it is to replace, and parses it.
///
/// # Errors
/// The file has changed since the user saw it, the text changes what is reserved, or all mistakes of the text.
pub(super) fn parse(new: &NewConfig, file: Option<PathBuf>) -> Result<Config, Vec<StartError>> {
    let refused = |what| vec![StartError::Upload(what)];
    let no_file = "there is no file for the configuration; name one with --config";
    let file = file.ok_or_else(|| refused(no_file.into()))?;
    let old = read(&file).map_err(refused)?;
    if digest(&old).map_err(refused)? != *new.expected {
        let what = "the configuration has changed since you read it; read it again, and repeat your change";
        return Err(refused(what.into()));
    }
    let file = std::path::absolute(&file).unwrap_or(file);
    let config = reserved::successor(file, &old, &new.text);
    config.map_err(|all| all.into_iter().map(StartError::from).collect())
}

/// Checks an earlier text against the file that it is to replace, and parses it.
///
/// # Errors
/// The file was edited since it was loaded and `earlier` does not force it, the text changes what must stay, or all mistakes of the
/// text.
pub(super) fn parse_earlier(
    earlier: &EarlierConfig,
    file: Option<PathBuf>,
) -> Result<Config, Vec<StartError>> {
    let refused = |what| vec![StartError::Upload(what)];
    let no_file = "there is no file for the configuration; name one with --config";
    let file = file.ok_or_else(|| refused(no_file.into()))?;
    let file = std::path::absolute(&file).unwrap_or(file);
    let present = read(&file);
    let is_edited = present.as_deref() != Ok(&*earlier.loaded);
    if is_edited && !earlier.force {
        return Err(refused(present.map_or_else(|why| why, |_| edited(&file))));
    }
    if earlier.keeps_reserved {
        for other in [Ok(earlier.loaded.to_string()), present] {
            let keys = other.and_then(|other| reserved::differing(&other, &earlier.text));
            let keys = keys.map_err(refused)?;
            if !keys.is_empty() {
                return Err(refused(format!(
                    "the earlier configuration differs in {}, which nobody changes over the HTTP interface; use `rosemary undo` on the machine",
                    keys.join(", ")
                )));
            }
        }
    }
    let config = Config::parse_all(file, earlier.text.to_string());
    config.map_err(|all| all.into_iter().map(StartError::from).collect())
}

/// Why an edited file is not replaced.
fn edited(file: &Path) -> String {
    format!(
        "{} was edited since it was loaded; apply it with `rosemary reload`, or use --force, which keeps the edited text beside it",
        file.display()
    )
}

/// Writes the text of `config`, which was loaded before, into its file. If somebody edited the file since it had the text `loaded`, the
/// edited file is kept beside it under the name that is returned.
///
/// # Errors
/// Why it cannot be written, as a phrase: also that the file was edited and `force` is not given.
pub(crate) fn restore(
    config: &Config,
    loaded: &str,
    force: bool,
) -> Result<Option<PathBuf>, String> {
    let path = config.file.as_deref().ok_or("there is no file for the configuration")?;
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_edited = read(path).as_deref() != Ok(loaded)
        && path.exists()
        && read(path).as_deref() != Ok(config.text());
    if is_edited && !force {
        return Err(edited(path));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".edited");
    let beside = PathBuf::from(beside);
    if is_edited {
        // A link keeps the content, its owner and its mode, and `write` replaces the name alone.
        let _ = std::fs::remove_file(&beside); // the one before
        let kept = std::fs::hard_link(path, &beside);
        kept.map_err(|error| format!("{} cannot be made: {error}", beside.display()))?;
    }
    store(config)?;
    Ok(is_edited.then_some(beside))
}

/// Writes the text of `config` into its file.
///
/// # Errors
/// Why it cannot be written, as a phrase.
pub(crate) fn store(config: &Config) -> Result<(), String> {
    let path = config.file.as_deref().ok_or("there is no file for the configuration")?;
    write(path, config.text())
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // Through a link, so that the link stays.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let _ = std::fs::remove_file(&beside); // a killed instance may have left it
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    match std::fs::metadata(path) {
        Ok(old) => {
            file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o777))?;
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Reads the text of the file, which is empty if the file is missing.
///
/// # Errors
/// Why it cannot be read, as a phrase.
pub(super) fn read(path: &Path) -> Result<String, String> {
    match read_file(path, LONGEST as u64) {
        Ok(bytes) => {
            String::from_utf8(bytes).map_err(|_| "the configuration is not UTF-8 text".into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// The SHA-256 of a text in hexadecimal digits.
///
/// # Errors
/// The system is out of memory or descriptors.
pub(super) fn digest(text: &str) -> Result<String, String> {
    let memory = sys::shm::sealed_copy("configuration", text.as_bytes());
    let digest = memory.and_then(|memory| sys::digest::sha256(&File::from(memory)));
    digest.map_err(|error| error.to_string())
}

/// Takes a package and its signature.
///
/// # Errors
/// Why there is none, as a phrase.
pub(super) fn staged_files(fds: Vec<OwnedFd>) -> Result<PackageFiles, String> {
    let fds = <[OwnedFd; 2]>::try_from(fds);
    let [package, signature] = fds.map_err(
        |_| "a package can be sent over the HTTP interface alone; use `rosemary app upgrade`",
    )?;
    if ![&package, &signature].into_iter().all(sys::shm::is_immutable) {
        return Err("the package could still be changed".into());
    }
    Ok(PackageFiles { package, signature })
}

/// Checks a package, and puts it beside the installed one of `app`.
///
/// # Errors
/// It is refused, is of another app or developer, or cannot be written.
pub(super) fn stage(
    app: &str,
    files: &PackageFiles,
    config: &Config,
    store: &Store,
) -> Result<(), StartError> {
    let refused = |why: String| StartError::Upload(format!("the package is refused: {why}"));
    let size = rustix::fs::fstat(&files.package).map_or(u64::MAX, |it| it.st_size.unsigned_abs());
    if size > MAX_PACKAGE as u64 {
        return Err(refused(format!("it is longer than {MAX_PACKAGE} bytes")));
    }
    let gate = Gate::new(&config.trust)?;
    let new = gate.admit_new(files).map_err(|error| refused(error.to_string()))?;
    let name = &new.manifest.app.name;
    if name != app {
        return Err(refused(format!("it is of the app {name}, not of {app}")));
    }
    if !store.has(app) {
        return Err(refused(format!(
            "{app} is not installed as a package; use `rosemary app install`"
        )));
    }
    let installed = store.read(app).map_err(|error| refused(error.to_string()))?;
    let installed = gate.admit_installed(&installed, app);
    let installed =
        installed.map_err(|error| refused(format!("the installed one is refused: {error}")))?;
    if installed.trust.key != new.trust.key {
        return Err(refused(format!("{} has signed the installed one", installed.developer())));
    }
    store.stage(app, files).map_err(|error| refused(format!("it cannot be stored: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(text: &str, expected: &str) -> NewConfig {
        let memory = sys::shm::sealed_copy("configuration", text.as_bytes()).unwrap();
        receive(vec![memory], expected).unwrap()
    }

    #[test]
    fn new_text_replaces_the_file_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rosemary.toml");
        let old = "[controller]\nworkers = 1\n";
        std::fs::write(&path, old).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let expected = digest(old).unwrap();
        let text = "# mine\n[controller]\nworkers = 2\n";
        let new = new(text, &expected);
        let config = parse(&new, Some(path.clone())).unwrap();
        assert_eq!(config.workers, Some(2));
        store(&config).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let late = parse(&new, Some(path)).unwrap_err()[0].to_string();
        assert!(late.contains("has changed since"), "{late}");
    }

    fn earlier(text: &str, loaded: &str) -> EarlierConfig {
        let (text, loaded) = (text.into(), loaded.into());
        EarlierConfig { text, loaded, force: false, keeps_reserved: false }
    }

    #[test]
    fn edited_file_is_replaced_by_force_alone_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rosemary.toml");
        let (one, two) = ("[controller]\nworkers = 1\n", "[controller]\nworkers = 2\n");
        std::fs::write(&path, two).unwrap();
        let back = earlier(one, two);
        let config = parse_earlier(&back, Some(path.clone())).unwrap();
        std::fs::write(&path, "# edited").unwrap();
        let refused = parse_earlier(&back, Some(path.clone())).unwrap_err()[0].to_string();
        assert!(refused.contains("was edited since") && refused.contains("--force"), "{refused}");
        assert!(restore(&config, two, false).unwrap_err().contains("was edited since"));
        let forced = EarlierConfig { force: true, ..back };
        assert_eq!(parse_earlier(&forced, Some(path.clone())).unwrap().workers, Some(1));
        let kept = restore(&config, two, true).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), one);
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "# edited");
        assert_eq!(restore(&config, two, false), Ok(None), "it has the text already");
    }

    #[test]
    fn earlier_text_may_keep_reserved_keys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rosemary.toml");
        let plain = "[controller]\nplain = \"any\"\n";
        for (text, loaded, file) in [(plain, "", ""), ("", "", plain), ("", plain, "")] {
            std::fs::write(&path, file).unwrap();
            let over_http =
                EarlierConfig { force: true, keeps_reserved: true, ..earlier(text, loaded) };
            let refused = parse_earlier(&over_http, Some(path.clone())).unwrap_err();
            assert!(refused[0].to_string().contains("controller.plain"), "{refused:?}");
            let here = EarlierConfig { keeps_reserved: false, ..over_http };
            parse_earlier(&here, Some(path.clone())).unwrap();
        }
    }

    #[test]
    fn reserved_keys_and_mistakes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rosemary.toml");
        std::fs::write(&path, "").unwrap();
        let expected = digest("").unwrap();
        for (text, parts) in [
            ("[controller]\nplain = \"any\"\n", &["controller.plain"][..]),
            ("[northbound]\nenabled = false\n", &["northbound"]),
            ("[controller]\nworkers = 0\nlistn = 1\n", &["rosemary.toml:2:", "rosemary.toml:3:"]),
        ] {
            let errors = parse(&new(text, &expected), Some(path.clone())).unwrap_err();
            assert_eq!(errors.len(), parts.len(), "{errors:?}");
            for (error, part) in errors.iter().zip(parts) {
                assert!(error.to_string().contains(part), "{error}");
            }
        }
        assert!(receive(Vec::new(), "").is_err());
    }
}
