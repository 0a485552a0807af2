use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use minisign::KeyPair;

use super::*;

/// An installation of invented files, and the key pair that signs it.
struct Installed {
    dir: tempfile::TempDir,
    pair: KeyPair,
}

const KERNEL: &str = "libexec/rosemary/rosemary-kernel";
const APP: &str = "lib/rosemary/apps/forwarding.so";
/// The page is part of this program.
const NORTHBOUND: &str = "libexec/rosemary/rosemary-northbound";
const CONFIG: &str = "share/doc/rosemary/rosemary.toml";
const MODULE: &str = "lib/rosemary/python/lib/rosemary/app.py";
const INTERPRETER: &str = "lib/rosemary/python/bin/python3";

impl Installed {
    fn new(version: u64) -> Self {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let installed = Self { dir: tempfile::tempdir().unwrap(), pair };
        let (root, copy) = (installed.root(), installed.root().join(RECOVERY));
        for root in [&root, &copy] {
            for (path, mode) in [
                (KERNEL, 0o755),
                (APP, 0o644),
                (NORTHBOUND, 0o755),
                (CONFIG, 0o644),
                (MODULE, 0o644),
            ] {
                write(root, path, path.as_bytes(), mode);
            }
            let link = root.join(INTERPRETER);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink("/usr/bin/python3", link).unwrap();
        }
        for part in Part::ALL {
            installed.sign(&root, &Self::manifest(part, version));
            for path in [part.file().to_owned(), part.signature()] {
                fs::copy(root.join(&path), copy.join(path)).unwrap();
            }
        }
        installed
    }

    fn root(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    fn key(&self) -> PublicKey {
        self.pair.pk.to_base64().parse().unwrap()
    }

    fn manifest(part: Part, version: u64) -> Manifest {
        let entry = |path: &str, mode: Option<u32>, content: &[u8]| Entry {
            path: path.into(),
            mode,
            size: content.len() as u64,
            sha256: package::sha256(content),
        };
        let file = |path: &str, mode| entry(path, Some(mode), path.as_bytes());
        let (whole, entries) = match part {
            Part::Rosemary => (
                Vec::new(),
                vec![
                    file(KERNEL, 0o755),
                    file(APP, 0o644),
                    file(NORTHBOUND, 0o755),
                    file(CONFIG, 0o644),
                ],
            ),
            Part::Python => (
                vec!["lib/rosemary/python".to_owned()],
                vec![file(MODULE, 0o644), entry(INTERPRETER, None, b"/usr/bin/python3")],
            ),
        };
        Manifest::new(part, version, whole, entries).unwrap()
    }

    fn sign(&self, root: &Path, manifest: &Manifest) {
        let text = manifest.to_text();
        let signature =
            minisign::sign(None, &self.pair.sk, text.as_bytes(), Some("a release"), None).unwrap();
        write(root, manifest.part.file(), text.as_bytes(), 0o644);
        write(root, &manifest.part.signature(), signature.into_string().as_bytes(), 0o644);
    }

    fn open(&self, replace: bool) -> Result<(Release, Vec<Finding>), Error> {
        Release::open(&self.root(), &self.key(), replace)
    }

    /// The findings of the whole check, as text.
    fn findings(&self, replace: bool) -> Vec<String> {
        let (release, mut findings) = self.open(replace).unwrap();
        findings.extend(release.check_all(replace));
        let text = |it: Finding| {
            let replaced = it.replaced.map(|it| it.map_err(|error| error.to_string()));
            format!("{} {} {replaced:?}", it.path, it.fault)
        };
        findings.into_iter().map(text).collect()
    }
}

fn write(root: &Path, path: &str, content: &[u8], mode: u32) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&file);
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
}

/// Flips a bit of a byte in place.
fn flip(file: &Path, at: usize) {
    let mut content = fs::read(file).unwrap();
    let at = at % content.len();
    content[at] ^= 1 << (at % 8);
    fs::write(file, content).unwrap();
}

#[test]
fn released_files_have_no_findings() {
    let installed = Installed::new(7);
    assert_eq!(installed.findings(false), [""; 0]);
    let (release, _) = installed.open(false).unwrap();
    assert_eq!(release.parts().len(), 2);
    assert_eq!(release.part(Part::Python).map(|it| it.version), Some(7));
    let entry = release.entry(KERNEL).unwrap();
    assert!(release.check(entry).unwrap().is_some());
}

#[test]
fn each_flipped_byte_is_found_and_replaced() {
    for path in [KERNEL, APP, NORTHBOUND, CONFIG, MODULE] {
        let installed = Installed::new(1);
        let file = installed.root().join(path);
        for at in 0..path.len() {
            flip(&file, at);
            let found = installed.findings(false);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(path) && found[0].ends_with(" None"), "{found:?}");
            let found = installed.findings(true);
            assert!(found[0].ends_with("Some(Ok(()))"), "{found:?}");
            assert_eq!(installed.findings(false), [""; 0], "{path}, byte {at}");
        }
    }
}

/// Flips each byte from `first` on of a manifest or a signature: nothing is read from it, and the copy replaces it.
fn flip_all(installed: &Installed, path: &str, first: usize) {
    let file = installed.root().join(path);
    let good = fs::read(&file).unwrap();
    for at in first..good.len() {
        flip(&file, at);
        let error = installed.open(false).unwrap_err();
        assert!(matches!(error, Error::Signature { .. }), "byte {at}: {error}");
        // Each replacement waits for the disk.
        if at % 64 == 0 {
            let found = installed.findings(true);
            assert!(found.len() == 1 && found[0].starts_with(path), "{found:?}");
            assert_eq!(fs::read(&file).unwrap(), good, "byte {at}");
        } else {
            flip(&file, at);
        }
    }
    assert_eq!(installed.findings(false), [""; 0]);
}

#[test]
fn each_flipped_byte_of_a_manifest_is_refused_and_replaced() {
    let installed = Installed::new(1);
    for part in Part::ALL {
        flip_all(&installed, part.file(), 0);
    }
}

#[test]
fn each_flipped_byte_of_a_signature_is_refused_and_replaced() {
    let installed = Installed::new(1);
    for part in Part::ALL {
        // The first line is a comment without a signature, and unused.
        let good = fs::read(installed.root().join(part.signature())).unwrap();
        let signed = good.iter().position(|it| *it == b'\n').unwrap();
        flip_all(&installed, &part.signature(), signed);
    }
}

#[test]
fn flipped_byte_of_the_copy_replaces_nothing() {
    for path in [KERNEL, APP, CONFIG, MODULE] {
        let installed = Installed::new(1);
        for at in 0..path.len() {
            flip(&installed.root().join(RECOVERY).join(path), at);
            assert_eq!(installed.findings(true), [""; 0], "the copy is read in need only");
            flip(&installed.root().join(path), 3);
            let found = installed.findings(true);
            assert!(found[0].contains("its copy in"), "{found:?}");
            assert!(found[0].contains("was changed"), "{found:?}");
            let (release, _) = installed.open(true).unwrap();
            let entry = release.entry(path).unwrap();
            assert!(release.check(entry).is_err() && release.check_copy(entry).is_err());
            for root in [installed.root(), installed.root().join(RECOVERY)] {
                let mode = entry.mode.unwrap();
                write(&root, path, path.as_bytes(), mode);
            }
        }
    }
}

#[test]
fn damaged_manifest_of_the_copy_is_not_used() {
    let installed = Installed::new(1);
    let copy = installed.root().join(RECOVERY);
    flip(&copy.join(Part::Rosemary.file()), 40);
    assert_eq!(installed.findings(true), [""; 0]);
    flip(&installed.root().join(Part::Rosemary.file()), 50);
    assert!(matches!(installed.open(true), Err(Error::Signature { .. })));
}

#[test]
fn missing_files_are_replaced() {
    let installed = Installed::new(1);
    let root = installed.root();
    fs::remove_dir_all(root.join("libexec")).unwrap();
    fs::remove_file(root.join(INTERPRETER)).unwrap();
    fs::remove_file(root.join(Part::Python.file())).unwrap();
    let error = installed.open(false).unwrap_err().to_string();
    assert!(error.contains("MANIFEST.python is missing"), "{error}");
    let found = installed.findings(true);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|it| it.ends_with("Some(Ok(()))")), "{found:?}");
    assert_eq!(installed.findings(false), [""; 0]);
    assert_eq!(fs::read_link(root.join(INTERPRETER)).unwrap(), Path::new("/usr/bin/python3"));
}

#[test]
fn installation_without_python_has_one_part() {
    let installed = Installed::new(1);
    for root in [installed.root(), installed.root().join(RECOVERY)] {
        fs::remove_file(root.join(Part::Python.file())).unwrap();
        fs::remove_file(root.join(Part::Python.signature())).unwrap();
    }
    assert_eq!(installed.open(true).unwrap().0.parts().len(), 1);
}

#[test]
fn links_and_other_kinds_are_not_followed() {
    let installed = Installed::new(1);
    let root = installed.root();
    let link_instead = |path: &str, target: &Path| {
        fs::remove_file(root.join(path)).unwrap();
        symlink(target, root.join(path)).unwrap();
    };
    // The same content, but whoever may write the target can change it later.
    link_instead(KERNEL, &root.join(RECOVERY).join(KERNEL));
    link_instead(INTERPRETER, Path::new("/usr/bin/perl"));
    fs::remove_file(root.join(APP)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join(APP),
        rustix::fs::FileType::Fifo,
        0o644.into(),
        0,
    )
    .unwrap();
    let found = installed.findings(false);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found.iter().filter(|it| it.contains("is not the kind")).count(), 2, "{found:?}");
    installed.findings(true);
    assert_eq!(installed.findings(false), [""; 0]);
    // A directory above it.
    fs::rename(root.join("share"), root.join("elsewhere")).unwrap();
    symlink(root.join("elsewhere"), root.join("share")).unwrap();
    let found = installed.findings(true);
    assert!(found[0].contains("is not the kind") && found[0].contains("Some(Err"), "{found:?}");
}

#[test]
fn writable_file_is_a_fault() {
    let installed = Installed::new(1);
    let file = installed.root().join(KERNEL);
    for mode in [0o775, 0o757, 0o4755, 0o700] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let found = installed.findings(false);
        assert!(found[0].contains(&format!("permissions are {mode:o}")), "{found:?}");
    }
    installed.findings(true);
    assert_eq!(installed.findings(false), [""; 0]);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
        let found = installed.findings(false);
        assert!(found[0].contains("belongs to user 12345"), "{found:?}");
    }
}

#[test]
fn file_beside_the_listed_ones_is_found() {
    let installed = Installed::new(1);
    write(&installed.root(), "lib/rosemary/python/lib/json.py", b"import os", 0o644);
    write(&installed.root(), "lib/rosemary/apps/other.so", b"not below a whole directory", 0o644);
    let found = installed.findings(true);
    assert_eq!(found, ["lib/rosemary/python/lib/json.py is not part of the release None"]);
}

#[test]
fn manifests_of_other_keys_and_parts_are_refused() {
    let (installed, other) = (Installed::new(1), Installed::new(2));
    let why = |error: Error| error.to_string();
    let error = why(Release::open(&installed.root(), &other.key(), true).unwrap_err());
    assert!(error.contains("releases are signed by"), "{error}");
    // The manifest of the other part in its place, with its own signature.
    for (from, to) in [
        (Part::Python.file().to_owned(), Part::Rosemary.file().to_owned()),
        (Part::Python.signature(), Part::Rosemary.signature()),
    ] {
        fs::copy(installed.root().join(from), installed.root().join(to)).unwrap();
    }
    let error = why(installed.open(false).unwrap_err());
    assert!(error.contains("manifest of the part python"), "{error}");
}

#[test]
fn signed_text_that_is_no_manifest_is_refused() {
    let installed = Installed::new(1);
    let text = b"file 755 1 bin/sh\n";
    let signature =
        minisign::sign(None, &installed.pair.sk, text.as_slice(), Some("a release"), None).unwrap();
    write(&installed.root(), Part::Rosemary.file(), text, 0o644);
    let signature = signature.into_string();
    write(&installed.root(), &Part::Rosemary.signature(), signature.as_bytes(), 0o644);
    assert!(matches!(installed.open(false), Err(Error::Malformed { .. })));
}

#[test]
fn key_that_others_can_replace_is_refused() {
    let installed = Installed::new(1);
    let file = installed.root().join("release.pub");
    assert!(matches!(read_key(&file), Err(Error::NoKey { .. })));
    let text = format!("untrusted comment: a key\n{}\n", installed.key());
    write(&installed.root(), "release.pub", text.as_bytes(), 0o644);
    assert_eq!(read_key(&file).unwrap(), installed.key());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    let error = read_key(&file).unwrap_err().to_string();
    assert!(error.contains("permissions are 664"), "{error}");
    write(&installed.root(), "release.pub", b"no\nkey\n", 0o644);
    assert!(read_key(&file).unwrap_err().to_string().contains("56 letters"));
    write(&installed.root(), "release.pub", &[b'\n'; 10_000], 0o644);
    assert!(matches!(read_key(&file), Err(Error::Key { .. })));
}

#[test]
fn key_of_the_system_is_in_etc() {
    assert_eq!(key_file(Path::new("/usr")), Path::new("/etc/rosemary/release.pub"));
    assert_eq!(key_file(Path::new("/usr/local")), Path::new("/usr/local/etc/rosemary/release.pub"));
    assert_eq!(key_file(Path::new("/opt/r")), Path::new("/opt/r/etc/rosemary/release.pub"));
}

#[test]
fn settled_file_has_a_stamp() {
    let installed = Installed::new(1);
    let file = fs::metadata(installed.root().join(KERNEL)).unwrap();
    let now = SystemTime::now();
    assert_eq!(Stamp::of(&file, now), None);
    let later = now + Duration::from_secs(10);
    let stamp = Stamp::of(&file, later);
    assert!(stamp.is_some());
    flip(&installed.root().join(KERNEL), 0);
    let changed = fs::metadata(installed.root().join(KERNEL)).unwrap();
    assert_ne!(Stamp::of(&changed, later), stamp);
}
