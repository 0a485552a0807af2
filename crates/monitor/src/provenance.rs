//! Checks the programs and shipped apps before they run: `[start] verify`.
//!
//! [`begin`] opens the installation with its signed manifests. From then on [`command`] checks each program on the descriptor that is
//! executed, and [`content`] the bytes of each shipped app. With `require`, a file that is not the released one is replaced from the
//! recovery copy. If the disk does not take it, such as `/usr` that systemd has made read-only, the copy itself runs.
//!
//! The state is one of the process, because programs start in several threads and nothing of it ever changes the policy. Without a
//! policy, each function returns after one load.
//!
//! The descriptor leads to the file on the disk, not to a copy in sealed memory: all processes of a program share its pages, and a
//! crash names its functions by the file. So a file that somebody other than root and this process's user may write is a fault, and
//! such a user cannot change it between the check and the execution. The interpreter of Python belongs to the system.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use config::{Config, Verify};
use control::operator::{CheckedFile, FileState, Provenance, ReleasePart};
use rustix::fs::OFlags;
use supervisor::program::Executable;
use tracing::{info, warn};
use verify::manifest::{Entry, Part};
use verify::{Fault, Finding, NotReplaced, RECOVERY, Release, Stamp, key_file, read_key};

use crate::error::StartError;
use crate::installation;
use crate::options::Options;

/// The file with the highest numbers of releases that ran, in the state directory.
const NUMBERS: &str = "release.json";

/// The most bytes of that file.
const MAX_NUMBERS: u64 = 4096;

/// The most faults that wait for the event loop, or are reported.
const MOST_FAULTS: usize = 100;

/// The programs that run before the monitor could check them. The monitor checks them for the next start.
const BEFORE: [&str; 3] =
    ["bin/rosemary", "libexec/rosemary/rosemary-verify", "libexec/rosemary/rosemary-monitor"];

/// The directory of shipped apps and libraries, below the root.
const OWN: &str = "lib/rosemary/";

/// What to do about a file that cannot be replaced.
const HINT: &str = "install Rosemary again; rosemary-verify shows all such files";

static CHECKS: OnceLock<Checks> = OnceLock::new();

/// The installation and what was found about its files.
#[derive(Debug)]
struct Checks {
    policy: Verify,
    release: Release,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The stamps of files that were checked and are as released, by their paths.
    stamps: BTreeMap<String, Stamp>,
    /// The results for programs and apps, by their paths.
    results: BTreeMap<String, FileState>,
    /// The faults that are not yet incidents.
    faults: Vec<FileFault>,
    /// All faults, as phrases, without repetitions.
    phrases: Vec<String>,
}

/// A file that is not the released one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileFault {
    /// Its path.
    pub(crate) file: String,
    /// The fault, as a phrase.
    pub(crate) found: String,
    /// The reaction, as a phrase.
    pub(crate) reaction: String,
}

/// Begins to check, if the configuration or a signed manifest asks for it.
///
/// # Errors
/// [`StartError::NotVerified`]: the policy is `require`, and nothing can be checked, or this program is not the released one.
pub(crate) fn begin(options: &Options, config: &Config) -> Result<(), StartError> {
    let Some((policy, release, findings)) = open(options, config)? else { return Ok(()) };
    for part in release.parts() {
        let (part, sha256) = (&part.manifest, &part.sha256);
        let (name, number, key) = (part.part.name(), part.version, release.key().to_string());
        info!(part = name, number, %sha256, key, verify = policy.name(), "checked the manifest of the release");
    }
    let checks = Checks { policy, release, state: Mutex::default() };
    for finding in findings {
        checks.note(&finding.path, &finding.fault, finding.replaced.as_ref());
    }
    checks.own_programs()?;
    // The monitor begins once.
    let _ = CHECKS.set(checks);
    Ok(())
}

/// The policy, and the installation with what was found about its manifests; `None` if nothing is to be checked.
fn open(
    options: &Options,
    config: &Config,
) -> Result<Option<(Verify, Release, Vec<Finding>)>, StartError> {
    let root = installation::release_root()?;
    let is_signed = |root: &PathBuf| root.join(Part::Rosemary.signature()).exists();
    let default =
        || if root.as_ref().is_some_and(is_signed) { Verify::Report } else { Verify::Off };
    let policy = config.verify.unwrap_or_else(default);
    if policy == Verify::Off {
        return Ok(None);
    }
    let require = policy == Verify::Require;
    if require && options.allows_any_unsigned() {
        return Err(StartError::UnsignedUnderRequire);
    }
    let opened = match &root {
        Some(root) => read_key(&key_file(root))
            .and_then(|key| Release::open(root, &key, require))
            .map_err(|error| error.to_string()),
        None => Err("this program runs from the directory of a build, which has no manifest; run an installed one".to_owned()),
    };
    match opened {
        Ok((release, findings)) => Ok(Some((policy, release, findings))),
        Err(why) if require => Err(StartError::NotVerified { why }),
        Err(why) => {
            warn!(why, "could not check the files of this installation");
            Ok(None)
        }
    }
}

/// Opens the program of the monitor for `rosemary up`, which executes it. `None`: nothing is required of it.
///
/// # Errors
/// [`StartError::NotVerified`].
pub fn monitor(options: &Options, program: &Path) -> Result<Option<File>, StartError> {
    // The monitor reports mistakes of the configuration.
    let Ok(config) = Config::load(options.instance.config.as_deref()) else { return Ok(None) };
    if config.verify != Some(Verify::Require) {
        return Ok(None);
    }
    let Some((policy, release, _)) = open(options, &config)? else { return Ok(None) };
    let checks = Checks { policy, release, state: Mutex::default() };
    let executable = Executable::from(program.to_owned());
    checks.program(&executable).map_err(|error| StartError::NotVerified { why: error.to_string() })
}

/// Accepts the numbers of the release, and remembers them in the state directory.
///
/// # Errors
/// [`StartError::Downgrade`]: an earlier start had a release with a greater number, and the policy is `require`.
/// [`StartError::Path`]: the numbers cannot be read or written.
pub(crate) fn accept_number(state_dir: &Path, allow_downgrade: bool) -> Result<(), StartError> {
    let Some(checks) = CHECKS.get() else { return Ok(()) };
    let path = state_dir.join(NUMBERS);
    let refuse = |what, source| {
        let hint = "correct or remove the file; without it an older release is not noticed";
        StartError::Path { what, path: path.clone(), hint, source }
    };
    let mut numbers = read_numbers(&path).map_err(|error| refuse("read", error))?;
    let before = numbers.clone();
    for part in checks.release.parts() {
        let (name, number) = (part.manifest.part.name(), part.manifest.version);
        match numbers.get(name) {
            Some(highest) if *highest > number && !allow_downgrade => {
                let highest = *highest;
                if checks.policy == Verify::Require {
                    return Err(StartError::Downgrade { part: name, number, highest });
                }
                warn!(part = name, number, highest, "an older release runs than before");
                checks.state().add_phrase(format!(
                    "release {number} of {name} is older than {highest}, which ran before"
                ));
            }
            _ => _ = numbers.insert(name.to_owned(), number),
        }
    }
    if numbers != before {
        store_numbers(state_dir, &numbers).map_err(|error| refuse("write", error))?;
    }
    Ok(())
}

fn read_numbers(path: &Path) -> io::Result<BTreeMap<String, u64>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX_NUMBERS).read_to_end(&mut text)?; // a truncated file does not parse
    Ok(serde_json::from_slice(&text)?)
}

fn store_numbers(state_dir: &Path, numbers: &BTreeMap<String, u64>) -> io::Result<()> {
    let new = state_dir.join(format!("{NUMBERS}.new"));
    let _ = std::fs::remove_file(&new); // a killed instance may have left it
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    file.write_all(&serde_json::to_vec(numbers)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&new, state_dir.join(NUMBERS))?;
    File::open(state_dir)?.sync_all()
}

/// The command that executes a program. The file, if there is one, must stay open until the command has been spawned: it was checked.
///
/// # Errors
/// The policy is `require`, and the program is not the released one and has no good copy.
pub(crate) fn command(executable: &Executable) -> io::Result<(Command, Option<File>)> {
    let file = CHECKS.get().map_or(Ok(None), |checks| checks.program(executable))?;
    let mut command = match &file {
        // The child has the descriptor until it executes the program.
        Some(file) => Command::new(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => Command::new(&executable.path),
    };
    command.arg0(&executable.path).args(&executable.args);
    Ok((command, file))
}

/// The content of the object of a shipped app, which was read from this path.
///
/// # Errors
/// It could not be read. With the policy `require`: it is not the released one and has no good copy.
pub(crate) fn content(path: &Path, read: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    CHECKS.get().map_or(Ok(None), |checks| checks.content(path, read.as_deref()))?.map_or(read, Ok)
}

/// Takes the faults that were found since the last call.
pub(crate) fn take_faults() -> Vec<FileFault> {
    CHECKS.get().map(|checks| std::mem::take(&mut checks.state().faults)).unwrap_or_default()
}

/// The faults, as phrases with a remedy.
pub(crate) fn faults() -> Vec<String> {
    let Some(checks) = CHECKS.get() else { return Vec::new() };
    let state = checks.state();
    let all = state.phrases.iter();
    all.map(|it| format!("{it}; `rosemary status --provenance` shows all files")).collect()
}

/// The report for operators.
pub(crate) fn report() -> Provenance {
    let Some(Checks { policy, release, .. }) = CHECKS.get() else {
        return Provenance {
            verify: Verify::Off.name().into(),
            root: None,
            key: None,
            parts: Vec::new(),
            files: Vec::new(),
            faults: Vec::new(),
        };
    };
    let state = CHECKS.get().map(Checks::state);
    let parts = release.parts().iter().map(|it| ReleasePart {
        name: it.manifest.part.name().into(),
        number: it.manifest.version,
        sha256: it.sha256.clone(),
        files: it.manifest.entries().len(),
    });
    let file = |(path, result): (&String, &FileState)| {
        let sha256 = release.entry(path)?.sha256.clone();
        Some(CheckedFile { path: path.clone(), sha256, state: *result })
    };
    Provenance {
        verify: policy.name().into(),
        root: Some(release.root().display().to_string()),
        key: Some(release.key().to_string()),
        parts: parts.collect(),
        files: state.iter().flat_map(|it| it.results.iter().filter_map(file)).collect(),
        faults: state.map(|it| it.phrases.clone()).unwrap_or_default(),
    }
}

impl State {
    fn add_phrase(&mut self, phrase: String) {
        if self.phrases.len() < MOST_FAULTS && !self.phrases.contains(&phrase) {
            self.phrases.push(phrase);
        }
    }
}

impl Checks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a file below the root of the installation. The recovery copy may have been started in its place.
    fn relative<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let below = path.strip_prefix(self.release.root()).ok()?;
        below.strip_prefix(RECOVERY).unwrap_or(below).to_str()
    }

    /// Checks the programs that ran before, and restores missing ones.
    fn own_programs(&self) -> Result<(), StartError> {
        let required = |error: io::Error| StartError::NotVerified { why: error.to_string() };
        for path in BEFORE {
            if let Some(entry) = self.release.entry(path) {
                self.checked(entry).map_err(required)?;
            }
        }
        // An app that is missing would count as unknown before it is read.
        let part = self.release.part(Part::Rosemary).map(|it| it.entries()).unwrap_or_default();
        for entry in part.iter().filter(|_| self.policy == Verify::Require) {
            if matches!(self.release.open_unchecked(entry), Err(Fault::Missing)) {
                self.checked(entry).map_err(required)?;
            }
        }
        Ok(())
    }

    /// Opens and checks a program. `None`: it is executed by its path.
    fn program(&self, executable: &Executable) -> io::Result<Option<File>> {
        let path = &executable.path;
        match self.relative(path).and_then(|it| self.release.entry(it)) {
            Some(entry) if entry.mode.is_some() => self.checked(entry),
            // The environment of apps in Python has a link to the interpreter.
            Some(_) => self.python().map(|()| None),
            None => {
                let shown = path.display().to_string();
                self.fault(&shown, "is not part of the release".into(), None).map(|()| None)
            }
        }
    }

    /// Opens a file and checks it, unless it is unchanged since it was checked. With the policy `report`, a file that differs yields
    /// `None`.
    fn checked(&self, entry: &Entry) -> io::Result<Option<File>> {
        let stamp = |file: &File| Stamp::of(&file.metadata().ok()?, SystemTime::now());
        if let Some(known) = self.state().stamps.get(&entry.path).copied()
            && let Ok(file) = self.release.open_unchecked(entry)
            && stamp(&file) == Some(known)
        {
            return Ok(Some(file));
        }
        let found = match self.release.check(entry) {
            Ok(file) => {
                if let Some(stamp) = file.as_ref().and_then(stamp) {
                    self.state().stamps.insert(entry.path.clone(), stamp);
                }
                self.result(entry, FileState::Released);
                return Ok(file);
            }
            Err(fault) => fault,
        };
        self.state().stamps.remove(&entry.path);
        if self.policy != Verify::Require {
            self.note(&entry.path, &found, None);
            self.result(entry, FileState::Changed);
            return Ok(None);
        }
        let replaced = self.release.replace(entry);
        self.note(&entry.path, &found, Some(&replaced));
        if replaced.is_ok() {
            // The check of what is executed is that of this descriptor.
            let file = self.release.check(entry);
            let text = |fault| io::Error::other(self.phrase(&entry.path, &fault));
            self.result(entry, FileState::Replaced);
            return file.map_err(text);
        }
        match self.release.check_copy(entry) {
            Ok(copy) => {
                self.result(entry, FileState::Copy);
                Ok(copy)
            }
            Err(why) => {
                self.result(entry, FileState::Changed);
                let text = self.phrase(&entry.path, &found);
                Err(io::Error::other(format!("{text}; {why}; {HINT}")))
            }
        }
    }

    /// Checks the whole environment for apps in Python, whose files the interpreter opens by itself.
    fn python(&self) -> io::Result<()> {
        let Some(part) = self.release.part(Part::Python) else {
            let path = self.release.root().join(Part::Python.file()).display().to_string();
            return self.fault(&path, "is missing".into(), None);
        };
        for entry in part.entries() {
            self.checked_on_disk(entry)?;
        }
        match self.release.unlisted(part).first() {
            Some(finding) => {
                let path = self.release.root().join(&finding.path).display().to_string();
                let remedy =
                    "move it away; `python-path` names directories with modules of your own";
                self.fault(&path, finding.fault.to_string(), Some(remedy))
            }
            None => Ok(()),
        }
    }

    /// Checks a file that others open by its path: the copy in another place is of no use to them.
    fn checked_on_disk(&self, entry: &Entry) -> io::Result<()> {
        self.checked(entry)?;
        let state = self.state().results.get(&entry.path).copied();
        if state == Some(FileState::Copy) {
            let path = self.release.root().join(&entry.path);
            return Err(io::Error::other(format!(
                "{} is not the released file, and could not be replaced; {HINT}",
                path.display()
            )));
        }
        Ok(())
    }

    /// Checks the bytes of a shipped app. `None`: they are as released, or the policy lets them pass.
    fn content(&self, path: &Path, read: Result<&[u8], &io::Error>) -> io::Result<Option<Vec<u8>>> {
        let relative = self.relative(path);
        let Some(entry) = relative.and_then(|it| self.release.entry(it)) else {
            // An app of the operator's own, which a report does not judge. With `require` only packages may be such apps.
            if self.policy != Verify::Require && !relative.is_some_and(|it| it.starts_with(OWN)) {
                return Ok(None);
            }
            let path = path.display().to_string();
            return self.fault(&path, "is not part of the release".into(), None).map(|()| None);
        };
        let found = match read {
            Ok(content) => package::sha256(content),
            Err(_) => String::new(), // the check below has the reason
        };
        if found == entry.sha256 {
            self.result(entry, FileState::Released);
            return Ok(None);
        }
        // The file on the disk may have changed since it was read; what is returned is what was checked.
        let Some(file) = self.checked(entry)? else { return Ok(None) };
        let mut content = Vec::new();
        file.take(entry.size).read_to_end(&mut content)?;
        if package::sha256(&content) != entry.sha256 {
            return Err(io::Error::other(format!("{} changes while it is read", path.display())));
        }
        Ok(Some(content))
    }

    fn phrase(&self, path: &str, fault: &Fault) -> String {
        format!("{} {fault}", self.release.root().join(path).display())
    }

    /// Keeps the result of a check, and logs it the first time.
    fn result(&self, entry: &Entry, result: FileState) {
        let Entry { path, sha256, .. } = entry;
        // The environment for apps in Python has thousands of files; its manifest stands for them.
        let is_of_python = self.release.part(Part::Python).is_some_and(|it| it.get(path).is_some());
        let before = if is_of_python && result == FileState::Released {
            self.state().results.remove(path)
        } else {
            self.state().results.insert(path.clone(), result)
        };
        if before != Some(result) && !is_of_python {
            info!(file = path, sha256, result = %result, "checked a file of the release");
        }
    }

    /// Notes a file that differs.
    fn note(&self, path: &str, fault: &Fault, replaced: Option<&Result<(), NotReplaced>>) {
        let path = self.release.root().join(path).display().to_string();
        let reaction = match replaced {
            None => "used it, as verify is \"report\"".to_owned(),
            Some(Ok(())) => "replaced it from the recovery copy".to_owned(),
            Some(Err(why)) => format!("did not replace it: {why}"),
        };
        self.add(path, fault.to_string(), reaction);
    }

    /// Notes something that is not part of the release. An error with the policy `require`.
    fn fault(&self, path: &str, found: String, remedy: Option<&str>) -> io::Result<()> {
        let is_required = self.policy == Verify::Require;
        let reaction =
            if is_required { "did not run it" } else { "used it, as verify is \"report\"" };
        let text = format!("{path} {found}; {}", remedy.unwrap_or(HINT));
        self.add(path.to_owned(), found, reaction.to_owned());
        if is_required { Err(io::Error::other(text)) } else { Ok(()) }
    }

    fn add(&self, file: String, found: String, reaction: String) {
        let phrase = format!("{file} {found}");
        let mut state = self.state();
        // A program that starts again and again makes one incident.
        let fault = FileFault { file, found, reaction };
        if !state.phrases.contains(&phrase) && state.faults.len() < MOST_FAULTS {
            warn!(
                file = fault.file,
                found = fault.found,
                reaction = fault.reaction,
                "a file is not the released one"
            );
            state.faults.push(fault);
        }
        state.add_phrase(phrase);
    }
}

#[cfg(test)]
mod tests;
