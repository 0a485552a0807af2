//! Checks of invented installations, without the state of the process.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use minisign::KeyPair;
use verify::manifest::Manifest;

use super::*;

const KERNEL: &str = "libexec/rosemary/rosemary-kernel";
const APP: &str = "lib/rosemary/apps/forwarding.so";
const MODULE: &str = "lib/rosemary/python/lib/rosemary/app.py";
const INTERPRETER: &str = "lib/rosemary/python/bin/python3";

/// An installation and its checks.
struct Installed {
    dir: tempfile::TempDir,
    checks: Checks,
}

fn write(root: &Path, path: &str, content: &[u8], mode: u32) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&file);
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
}

impl Installed {
    fn new(policy: Verify) -> Self {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let entry = |path: &str, mode, content: &[u8]| Entry {
            path: path.into(),
            mode,
            size: content.len() as u64,
            sha256: package::sha256(content),
        };
        let file = |path: &str, mode| entry(path, Some(mode), path.as_bytes());
        let target = "/usr/bin/python3";
        let parts = [
            (Part::Rosemary, Vec::new(), vec![file(KERNEL, 0o755), file(APP, 0o644)]),
            (
                Part::Python,
                vec!["lib/rosemary/python".to_owned()],
                vec![file(MODULE, 0o644), entry(INTERPRETER, None, target.as_bytes())],
            ),
        ];
        for root in [dir.path().to_owned(), dir.path().join(RECOVERY)] {
            for (path, mode) in [(KERNEL, 0o755), (APP, 0o644), (MODULE, 0o644)] {
                write(&root, path, path.as_bytes(), mode);
            }
            let link = root.join(INTERPRETER);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        for (part, whole, entries) in parts {
            let text = Manifest::new(part, 1, whole, entries).unwrap().to_text();
            let signed = minisign::sign(None, &pair.sk, text.as_bytes(), Some("it"), None).unwrap();
            write(dir.path(), part.file(), text.as_bytes(), 0o644);
            write(dir.path(), &part.signature(), signed.into_string().as_bytes(), 0o644);
        }
        let key = pair.pk.to_base64().parse().unwrap();
        let (release, _) = Release::open(dir.path(), &key, false).unwrap();
        Self { checks: Checks { policy, release, state: Mutex::default() }, dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// The content of what is executed for a program.
    fn program(&self, path: &str) -> Result<Option<String>, String> {
        let file = self.checks.program(&Executable::from(self.path(path)));
        let file = file.map_err(|error| error.to_string())?;
        Ok(file.map(|file| io::read_to_string(file).unwrap()))
    }

    fn app(&self) -> Result<Vec<u8>, String> {
        let (path, read) = (self.path(APP), fs::read(self.path(APP)));
        let checked = self.checks.content(&path, read.as_deref());
        checked.map_err(|error| error.to_string())?.map_or_else(|| Ok(read.unwrap()), Ok)
    }

    fn reactions(&self) -> Vec<String> {
        std::mem::take(&mut self.checks.state().faults).into_iter().map(|it| it.reaction).collect()
    }

    fn state(&self, path: &str) -> Option<FileState> {
        self.checks.state().results.get(path).copied()
    }

    fn flip(&self, path: &str) {
        let mut content = fs::read(self.path(path)).unwrap();
        content[3] ^= 4;
        fs::write(self.path(path), content).unwrap();
    }
}

#[test]
fn released_programs_and_apps_run() {
    for policy in [Verify::Require, Verify::Report] {
        let installed = Installed::new(policy);
        assert_eq!(installed.program(KERNEL), Ok(Some(KERNEL.into())));
        assert_eq!(installed.app(), Ok(APP.into()));
        assert_eq!(installed.program(INTERPRETER), Ok(None), "the system's own runs by its path");
        assert_eq!(installed.reactions(), [""; 0]);
        assert_eq!(installed.state(KERNEL), Some(FileState::Released));
    }
}

#[test]
fn changed_program_is_replaced_under_require() {
    let installed = Installed::new(Verify::Require);
    for path in [KERNEL, APP, MODULE] {
        installed.flip(path);
    }
    assert_eq!(installed.program(KERNEL), Ok(Some(KERNEL.into())));
    assert_eq!(installed.app(), Ok(APP.into()));
    assert_eq!(installed.program(INTERPRETER), Ok(None));
    assert_eq!(installed.reactions(), ["replaced it from the recovery copy"; 3]);
    for path in [KERNEL, APP, MODULE] {
        assert_eq!(installed.state(path), Some(FileState::Replaced));
        assert_eq!(fs::read_to_string(installed.path(path)).unwrap(), path);
    }
}

#[test]
fn program_without_good_copy_does_not_run_under_require() {
    let installed = Installed::new(Verify::Require);
    for path in [KERNEL, APP, MODULE] {
        installed.flip(path);
        installed.flip(&format!("{RECOVERY}/{path}"));
    }
    for error in [
        installed.program(KERNEL).unwrap_err(),
        installed.app().unwrap_err(),
        installed.program(INTERPRETER).unwrap_err(),
    ] {
        assert!(error.contains("was changed") && error.contains("its copy in"), "{error}");
        assert!(error.contains("install Rosemary again"), "{error}");
    }
    assert_eq!(installed.reactions().len(), 3);
    // A program that starts again and again makes one incident.
    installed.program(KERNEL).unwrap_err();
    assert_eq!(installed.reactions(), [""; 0]);
}

#[test]
fn changed_program_runs_and_is_noted_under_report() {
    let installed = Installed::new(Verify::Report);
    installed.flip(KERNEL);
    installed.flip(APP);
    let changed = fs::read(installed.path(APP)).unwrap();
    assert_eq!(installed.program(KERNEL), Ok(None));
    assert_eq!(installed.app(), Ok(changed));
    assert_eq!(installed.reactions().len(), 2);
    assert_eq!(installed.state(KERNEL), Some(FileState::Changed));
}

#[test]
fn foreign_files_are_refused_under_require() {
    let installed = Installed::new(Verify::Require);
    write(installed.dir.path(), "libexec/rosemary/rosemary-other", b"other", 0o755);
    for path in ["libexec/rosemary/rosemary-other", "/usr/bin/python3", "/nowhere/rosemary-kernel"]
    {
        let error = installed.program(path).unwrap_err();
        assert!(error.contains("not part of the release"), "{error}");
    }
    let error = installed.checks.content(Path::new("/x.so"), Ok(b"an app")).unwrap_err();
    assert!(error.to_string().contains("not part of the release"), "{error}");
    write(installed.dir.path(), "lib/rosemary/python/lib/json.py", b"import os", 0o644);
    let error = installed.program(INTERPRETER).unwrap_err();
    assert!(error.contains("lib/json.py is not part") && error.contains("move it away"), "{error}");
}

#[test]
fn report_does_not_judge_apps_of_the_operator() {
    let installed = Installed::new(Verify::Report);
    assert!(installed.checks.content(Path::new("/etc/hub.py"), Ok(b"an app")).unwrap().is_none());
    assert_eq!(installed.reactions(), [""; 0]);
    let other = installed.path("lib/rosemary/apps/other.so");
    assert!(installed.checks.content(&other, Ok(b"an app")).unwrap().is_none());
    assert_eq!(installed.reactions().len(), 1);
}

#[test]
fn copy_runs_if_the_disk_takes_nothing() {
    let installed = Installed::new(Verify::Require);
    // A directory in the place of the program cannot be replaced by a file, not even by root.
    fs::remove_file(installed.path(KERNEL)).unwrap();
    fs::create_dir(installed.path(KERNEL)).unwrap();
    assert_eq!(installed.program(KERNEL), Ok(Some(KERNEL.into())));
    assert_eq!(installed.state(KERNEL), Some(FileState::Copy));
    // The path is that of the recovery copy if the monitor runs from there.
    let path = format!("{RECOVERY}/{KERNEL}");
    assert_eq!(installed.program(&path), Ok(Some(KERNEL.into())));
}

#[test]
fn older_numbers_are_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NUMBERS);
    assert_eq!(read_numbers(&path).unwrap(), BTreeMap::new());
    let numbers = BTreeMap::from([("rosemary".to_owned(), 7)]);
    store_numbers(dir.path(), &numbers).unwrap();
    store_numbers(dir.path(), &numbers).unwrap();
    assert_eq!(read_numbers(&path).unwrap(), numbers);
    fs::write(&path, "{").unwrap();
    assert!(read_numbers(&path).is_err());
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert!(read_numbers(&path).is_err());
}
