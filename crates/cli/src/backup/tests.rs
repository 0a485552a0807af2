//! Backups of made-up instances: what comes back, and what damaged and hostile files do.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use age::secrecy::SecretString;
use control::northbound::RevokedUser;
use monitor::keys::{API_DIR, REVOKED, read_revoked, revoked_text};
use tempfile::TempDir;

use super::*;

const PASSWORD: &str = "basalt orbit lantern cactus velvet";

/// An instance with a configuration, keys and state, and a file with the password.
struct Instance {
    dir: TempDir,
}

impl Instance {
    fn new() -> Self {
        let it = Self { dir: tempfile::tempdir().unwrap() };
        it.write("password", PASSWORD);
        it
    }

    fn filled() -> Self {
        let it = Self::new();
        // Two apps share a file, and another stands between them.
        let app =
            |name: &str, file: &str| format!("[[app]]\nname = \"{name}\"\nconfig = \"{file}\"\n");
        let apps =
            [app("firewall", "firewall.toml"), app("a", "a.toml"), app("b", "firewall.toml")];
        it.write("etc/rosemary.toml", &apps.concat());
        it.write("etc/a.toml", "");
        it.write("etc/firewall.toml", "rules = []\n");
        it.write("etc/unrelated", "not ours");
        it.write("pki/controller-key.pem", "secret");
        fs::set_permissions(it.path("pki/controller-key.pem"), fs::Permissions::from_mode(0o600))
            .unwrap();
        it.write("pki/switches/edge-1/key.pem", "secret, too");
        it.write("state/apps.json", "{\"firewall\": 3}");
        it.write("state/apps/firewall.rosemary", "package");
        it.write("state/storage.redb", &"tree".repeat(100_000));
        it.write("state/log.redb", "lines");
        it.write("state/incidents/1.json", "{}");
        it.write("state/state.lock", "7");
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn places(&self) -> BackupPaths {
        BackupPaths {
            config: Some(self.path("etc/rosemary.toml")),
            state: StateDir { state_dir: Some(self.path("state")) },
            tls: TlsDir { tls_dir: Some(self.path("pki")) },
        }
    }

    fn password(&self) -> PasswordArgs {
        PasswordArgs { password_file: Some(self.path("password")) }
    }

    fn backup(&self) -> anyhow::Result<PathBuf> {
        let file = self.path("backup.age");
        backup(&BackupArgs {
            file: file.clone(),
            force: false,
            places: self.places(),
            password: self.password(),
        })
        .map(|()| file)
    }

    fn restore(&self, file: &Path, force: bool) -> anyhow::Result<()> {
        restore(&RestoreArgs {
            file: file.to_owned(),
            force,
            places: self.places(),
            password: self.password(),
        })
    }

    fn refuses(&self, file: &Path) -> String {
        let error = self.restore(file, true).unwrap_err();
        assert!(self.is_untouched(), "files were written");
        format!("{error:#}")
    }

    fn is_untouched(&self) -> bool {
        !self.path("etc/rosemary.toml").exists()
            && !self.path("pki").exists()
            && !self.path("state/apps.json").exists()
    }
}

/// Encrypts `tar` as a backup is encrypted. A low cost keeps the tests fast.
fn encrypted(tar: &[u8], work_factor: u8) -> Vec<u8> {
    let mut recipient = age::scrypt::Recipient::new(SecretString::from(PASSWORD.to_owned()));
    recipient.set_work_factor(work_factor);
    let encryptor =
        age::Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient))
            .unwrap();
    let mut file = Vec::new();
    let mut writer = encryptor.wrap_output(&mut file).unwrap();
    writer.write_all(tar).unwrap();
    writer.finish().unwrap();
    file
}

/// A tar archive with one entry, whose path is written as it is.
fn tar_with(path: &str, kind: tar::EntryType) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o6777);
    header.set_size(0);
    if kind == tar::EntryType::Symlink {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append(&header, std::io::empty()).unwrap();
    tar.into_inner().unwrap()
}

#[test]
fn backup_and_restore_bring_everything_back() {
    let instance = Instance::filled();
    let file = instance.backup().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&file).unwrap();
    assert!(!bytes.windows(6).any(|part| part == b"secret"), "the file is not encrypted");

    let other = Instance::new();
    other.restore(&file, false).unwrap();
    for name in [
        "etc/rosemary.toml",
        "etc/firewall.toml",
        "etc/a.toml",
        "pki/controller-key.pem",
        "pki/switches/edge-1/key.pem",
    ] {
        assert_eq!(other.read(name), instance.read(name), "{name}");
    }
    for name in ["state/apps.json", "state/apps/firewall.rosemary", "state/storage.redb"] {
        assert_eq!(other.read(name), instance.read(name), "{name}");
    }
    for name in ["etc/unrelated", "state/log.redb", "state/incidents"] {
        assert!(!other.path(name).exists(), "{name}");
    }
    let mode = |name: &str| fs::metadata(other.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("pki"), mode("pki/controller-key.pem")), (0o700, 0o600));
    let left: Vec<_> = fs::read_dir(other.path("state"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn restored_list_does_not_end_later_revocations() {
    let instance = Instance::filled();
    let revoked = |name: &str, before| RevokedUser { name: name.to_owned(), before };
    let api = instance.path("pki").join(API_DIR);
    fs::create_dir(&api).unwrap();
    fs::set_permissions(&api, fs::Permissions::from_mode(0o700)).unwrap();
    let write = |users: &[RevokedUser]| {
        fs::write(api.join(REVOKED), revoked_text(users).unwrap()).unwrap();
        fs::set_permissions(api.join(REVOKED), fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(&[revoked("alice", 5), revoked("carol", 9)]);
    let file = instance.backup().unwrap();
    write(&[revoked("alice", 7), revoked("bob", 8)]);
    instance.restore(&file, true).unwrap();
    let all = [revoked("alice", 7), revoked("carol", 9), revoked("bob", 8)];
    assert_eq!(read_revoked(&api).unwrap(), all);
}

#[test]
fn existing_files_are_replaced_only_with_force() {
    let instance = Instance::filled();
    let file = instance.backup().unwrap();
    let error = instance.backup().unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    instance.write("state/apps.json", "newer");
    instance.write("pki/switches/edge-2/key.pem", "newer");
    let error = instance.restore(&file, false).unwrap_err().to_string();
    assert!(error.contains(".toml exists already; --force"), "{error}");
    assert_eq!(instance.read("state/apps.json"), "newer");
    instance.restore(&file, true).unwrap();
    assert_eq!(instance.read("state/apps.json"), "{\"firewall\": 3}");
    assert_eq!(instance.read("state/before-restore-1/apps.json"), "newer");
    assert!(!instance.path("pki/switches/edge-2").exists());
    assert_eq!(instance.read("pki/before-restore-1/switches/edge-2/key.pem"), "newer");
    assert_eq!(instance.read("state/log.redb"), "lines");
    instance.restore(&file, true).unwrap();
    assert_eq!(instance.read("state/before-restore-1/apps.json"), "newer");
}

#[test]
fn restore_is_refused_while_rosemary_runs() {
    let instance = Instance::filled();
    let file = instance.backup().unwrap();
    let running = monitor::lock_state(&instance.path("state")).unwrap();
    let error = instance.restore(&file, true).unwrap_err().to_string();
    assert!(error.contains("Rosemary runs") && error.contains("systemctl stop"), "{error}");
    drop(running);
    instance.restore(&file, true).unwrap();
}

#[test]
fn wrong_password_and_damage_change_nothing() {
    let instance = Instance::filled();
    let good = fs::read(instance.backup().unwrap()).unwrap();
    let other = Instance::new();
    let bad = other.path("bad.age");

    other.write("password", "another password entirely, longer");
    fs::write(&bad, &good).unwrap();
    let error = other.refuses(&bad);
    assert!(error.contains("the password is wrong, or"), "{error}");
    other.write("password", PASSWORD);

    fs::write(&bad, &good[..good.len() - 100]).unwrap();
    let error = other.refuses(&bad);
    assert!(error.contains("is damaged; use another copy"), "{error}");
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&bad, &flipped).unwrap();
    let error = other.refuses(&bad);
    assert!(error.contains("is damaged"), "{error}");
    for foreign in [&b"PK\x03\x04 no backup"[..], b""] {
        fs::write(&bad, foreign).unwrap();
        let error = other.refuses(&bad);
        assert!(error.contains("is not a backup of Rosemary"), "{error}");
    }
    assert!(other.refuses(Path::new("/dev/zero")).contains("is not a regular file"));
}

#[test]
fn hostile_entries_are_refused() {
    let other = Instance::new();
    let file = other.path("hostile.age");
    let kinds = tar::EntryType::Regular;
    let cases = [
        ("/etc/cron.d/evil", kinds, "not relative"),
        ("state/../../evil", kinds, "leaves its directory"),
        ("../evil", kinds, "not relative"),
        ("home/evil", kinds, "in no directory of a backup"),
        ("state", kinds, "too short"),
        ("state/state.lock", kinds, "no backup contains it"),
        ("state/.restore-x/evil", kinds, "no backup contains it"),
        ("pki/link", tar::EntryType::Symlink, "neither a file nor a directory"),
        ("pki/hard", tar::EntryType::Link, "neither a file nor a directory"),
        ("pki/node", tar::EntryType::Char, "neither a file nor a directory"),
    ];
    for (path, kind, why) in cases {
        fs::write(&file, encrypted(&tar_with(path, kind), 2)).unwrap();
        let error = other.refuses(&file);
        assert!(error.contains(why), "{path}: {error}");
    }
    // Twice the same name, and a password that takes hours.
    let twice =
        [tar_with("pki/key.pem", kinds)[..512].to_vec(), tar_with("pki/key.pem", kinds)].concat();
    fs::write(&file, encrypted(&twice, 2)).unwrap();
    assert!(other.refuses(&file).contains("cannot write"));
    let mut slow = encrypted(&tar_with("pki/key.pem", kinds), 2);
    let at = slow.windows(3).position(|part| part == b" 2\n").unwrap();
    slow.splice(at..at + 3, *b" 40\n");
    fs::write(&file, slow).unwrap();
    assert!(other.refuses(&file).contains("needs more time"));
    // Bits for other users to write and set-user-id are dropped.
    fs::write(&file, encrypted(&tar_with("pki/key.pem", kinds), 2)).unwrap();
    other.restore(&file, true).unwrap();
    assert_eq!(
        fs::metadata(other.path("pki/key.pem")).unwrap().permissions().mode() & 0o7777,
        0o755
    );
}

/// A tar archive of these files.
fn tar_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn files_that_no_app_names_are_refused() {
    let other = Instance::new();
    let file = other.path("hostile.age");
    let good = "[[app]]\nname = \"a\"\nconfig = \"etc/a.toml\"\n";
    let bad = format!("{good}[[app]]\nname = \"b\"\nconfig = \"pki/api/a\"\n");
    for (path, why) in [
        ("config/ld.so.preload", "no app names it"),
        ("config/cron.d/evil", "no app names it"),
        ("config/etc/b.toml", "no app names it"),
        ("config/.bashrc", "no file of an app is in that place"),
        ("config/before-restore-1/x", "no file of an app is in that place"),
        ("config/pki/api/a", "no file of an app is in that place"),
        ("config/pki/controller-key.pem", "no file of an app is in that place"),
    ] {
        let tar = tar_of(&[("config/rosemary.toml", &bad), (path, "evil")]);
        fs::write(&file, encrypted(&tar, 2)).unwrap();
        let error = other.refuses(&file);
        assert!(error.contains(why), "{path}: {error}");
    }
    for files in [&[("config/a.toml", "")][..], &[("config/rosemary.toml/x", "")]] {
        fs::write(&file, encrypted(&tar_of(files), 2)).unwrap();
        assert!(other.refuses(&file).contains("has no configuration that can be read"));
    }
    let tar = tar_of(&[("config/rosemary.toml", good), ("config/etc/a.toml", "good")]);
    fs::write(&file, encrypted(&tar, 2)).unwrap();
    other.restore(&file, true).unwrap();
    assert_eq!(other.read("etc/etc/a.toml"), "good");
}

#[test]
fn named_file_replaces_neither_others_files_nor_rosemarys() {
    let other = Instance::new();
    let file = other.path("hostile.age");
    other.write("etc/cron.d/job", "good");
    let places = BackupPaths {
        config: Some(other.path("etc/zz.toml")),
        state: StateDir { state_dir: Some(other.path("etc/var")) },
        tls: TlsDir { tls_dir: Some(other.path("etc/keys")) },
    };
    for (named, why) in [
        ("cron.d/job", "another file is in its place"),
        ("zz.toml", "in the place of the configuration"),
        ("keys/api/x", "in the place of the configuration, the keys or the state"),
        ("var", "in the place of the configuration, the keys or the state"),
    ] {
        let text = format!("[[app]]\nname = \"a\"\nconfig = \"{named}\"\n");
        let path = format!("config/{named}");
        let tar = tar_of(&[("config/rosemary.toml", &text), (&path, "evil")]);
        fs::write(&file, encrypted(&tar, 2)).unwrap();
        let (file, places, password) = (file.clone(), places.clone(), other.password());
        let error = restore(&RestoreArgs { file, force: true, places, password }).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{named}: {error:#}");
    }
    assert_eq!(other.read("etc/cron.d/job"), "good");
    assert!(!other.path("etc/zz.toml").exists());
}

#[test]
fn long_names_return_and_endless_ones_are_refused() {
    let instance = Instance::filled();
    let name = format!("state/{}/{}", "d".repeat(120), "f".repeat(200));
    instance.write(&name, "kept");
    let file = instance.backup().unwrap();
    let other = Instance::new();
    other.restore(&file, false).unwrap();
    assert_eq!(other.read(&name), "kept");
    for (kind, why) in [
        (tar::EntryType::GNULongName, "more than 4096 bytes"),
        (tar::EntryType::XHeader, "neither a file nor a directory"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(1 << 20);
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_data(&mut header, "x", &vec![b'x'; 1 << 20][..]).unwrap();
        let tar = tar.into_inner().unwrap();
        let other = Instance::new();
        let file = other.path("long.age");
        fs::write(&file, encrypted(&tar, 2)).unwrap();
        let error = other.refuses(&file);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn others_cannot_look_into_a_restore() {
    let instance = Instance::filled();
    let file = instance.backup().unwrap();
    let staged = instance.path("state");
    let is_seen = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let restoring = scope.spawn(|| instance.restore(&file, true).unwrap());
        while !restoring.is_finished() {
            for entry in fs::read_dir(&staged).unwrap().flatten() {
                let is_it = entry.file_name().to_string_lossy().starts_with(".restore-");
                if let (true, Ok(about)) = (is_it, entry.metadata()) {
                    assert_eq!(about.permissions().mode() & 0o777, 0o700);
                    is_seen.store(true, std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
    });
    assert!(is_seen.into_inner(), "the directory was not seen");
}

#[test]
fn backup_cannot_choose_directories() {
    let restored = Config::parse(
        "/etc/rosemary/rosemary.toml".into(),
        "[controller]\nstate-dir = \"/root/.ssh\"\n".into(),
    )
    .unwrap();
    let given = Instance::new().places();
    restore::check_dirs(&restored, &given, Path::new("b.age")).unwrap();
    let error = restore::check_dirs(&restored, &BackupPaths::default(), Path::new("b.age"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("names a directory of its own, /root/.ssh; add --state-dir /root/.ssh"),
        "{error}"
    );
}

#[test]
fn changing_file_is_saved_as_of_one_moment() {
    let instance = Instance::filled();
    let path = instance.path("state/storage.redb");
    let writer = std::thread::spawn(move || {
        for round in 0..40_u8 {
            fs::write(&path, vec![round; 3_000_000]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let file = instance.backup().unwrap();
    writer.join().unwrap();
    let other = Instance::new();
    other.restore(&file, false).unwrap();
    let copy = fs::read(other.path("state/storage.redb")).unwrap();
    assert!(copy.iter().all(|&byte| byte == copy[0]), "the copy mixes two states");
}
