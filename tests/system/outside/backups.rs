//! Attacks by backups that somebody with the password changed: the files that `rosemary restore` writes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use age::secrecy::SecretString;
use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::pki::Pki;
use rosemary_tests::random::Random;
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};
use rustix::process::Signal;

use super::beside::run;

const LIMIT: Duration = Duration::from_secs(400);

const PASSWORD: &str = "violet heron counts seven ladders";

const PASSWORD_FILE: &str = "/run/lab/backup-password";

const FILE: &str = "/run/lab/changed.age";

/// The configuration of a good instance.
const CONFIG: &str = "[[app]]\nname = \"learning-switch\"\n";

/// The most memory of `rosemary restore`, in KiB.
const MEMORY: u64 = 80 * 1024;

/// An entry of an archive as an attacker writes it: path, kind, mode, owner, target of a link, content.
struct Entry<'a> {
    path: &'a str,
    kind: tar::EntryType,
    mode: u32,
    link: Option<&'a str>,
    content: &'a [u8],
}

fn file<'a>(path: &'a str, content: &'a str) -> Entry<'a> {
    let kind = tar::EntryType::Regular;
    Entry { path, kind, mode: 0o644, link: None, content: content.as_bytes() }
}

fn special<'a>(path: &'a str, kind: u8, link: Option<&'a str>) -> Entry<'a> {
    Entry { path, kind: tar::EntryType::new(kind), mode: 0o644, link, content: b"" }
}

/// Writes a backup with these entries. Paths and links are written as they are, whatever they lead to.
fn make(entries: &[Entry<'_>]) -> anyhow::Result<()> {
    let mut tar = Vec::new();
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        let put =
            |to: &mut [u8; 100], text: &str| to[..text.len()].copy_from_slice(text.as_bytes());
        put(&mut header.as_old_mut().name, entry.path);
        if let Some(link) = entry.link {
            put(&mut header.as_old_mut().linkname, link);
        }
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_uid(61_234);
        header.set_gid(61_234);
        header.set_size(entry.content.len() as u64);
        header.set_cksum();
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(entry.content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    encrypt(&tar)
}

fn encrypt(tar: &[u8]) -> anyhow::Result<()> {
    let mut recipient = age::scrypt::Recipient::new(SecretString::from(PASSWORD.to_owned()));
    recipient.set_work_factor(2);
    let recipients = std::iter::once(&recipient as &dyn age::Recipient);
    let mut writer =
        age::Encryptor::with_recipients(recipients)?.wrap_output(fs::File::create(FILE)?)?;
    writer.write_all(tar)?;
    writer.finish()?;
    Ok(())
}

fn restore(lab: &Lab, more: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let (code, said) =
        run(lab, &[&["restore", FILE, "--password-file", PASSWORD_FILE], more].concat())?;
    ensure!(!said.contains("panicked"), "{said}");
    Ok((code, said))
}

/// Mode, owner and content of files and directories.
type Contents = BTreeMap<PathBuf, (u32, u32, Vec<u8>)>;

/// Every file and directory that exists below these places, with mode, owner and content.
fn contents(places: &[&str]) -> anyhow::Result<Contents> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
    while let Some(path) = left.pop() {
        let Ok(about) = path.symlink_metadata() else { continue };
        let content = if about.is_file() { fs::read(&path)? } else { Vec::new() };
        if about.is_dir() {
            left.extend(
                path.read_dir()?
                    .map(|entry| entry.map(|it| it.path()))
                    .collect::<Result<Vec<_>, _>>()?,
            );
        }
        found.insert(path, (about.mode(), about.uid(), content));
    }
    Ok(found)
}

const PLACES: [&str; 2] = ["/etc/rosemary", "/var/lib/rosemary"];

/// Whether it is the directory of the state or the lock in it, which shows that no instance uses the state.
fn is_claim(path: &Path) -> bool {
    path.ends_with("state.lock") || path.ends_with("shared/state")
}

/// Fails if a restore succeeds or changes a file.
fn refused(lab: &Lab, places: &[&str], more: &[&str]) -> anyhow::Result<String> {
    let before = contents(places)?;
    let (code, said) = restore(lab, more)?;
    let after = contents(places)?;
    let new = after.iter().find(|(path, it)| before.get(*path) != Some(*it) && !is_claim(path));
    // The times of directories are not compared, and their own modes stay.
    ensure!(new.is_none(), "{:?} was written: {said}", new.map(|it| it.0));
    ensure!(after.len() >= before.len(), "a file is gone");
    ensure!(matches!(code, Some(1 | 78)), "{code:?} {said}");
    Ok(said.trim().to_owned())
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn changed_backups_write_nothing_but_their_own_files() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        fs::write(PASSWORD_FILE, format!("{PASSWORD}\n"))?;
        fs::write("/etc/rosemary/rosemary.toml", CONFIG)?;
        let (code, said) = run(lab, &["pki", "init"])?;
        ensure!(code == Some(0), "{said}");
        run(lab, &["pki", "api", "localhost"])?;
        run(lab, &["pki", "user", "alice", "--role", "admin"])?;
        run(lab, &["pki", "revoke-user", "alice"])?;
        let mut verdicts = Verdicts::default();
        verdicts.judge("a backup with paths that lead elsewhere", paths(lab));
        verdicts.judge("a backup with links, devices and pipes", kinds(lab));
        verdicts.judge("a backup with files beside the configuration", beside(lab));
        verdicts.judge("a backup with keys among the configuration", keys_elsewhere(lab));
        verdicts.judge("a backup with endless names", endless_names(lab));
        verdicts.judge("a backup with too many files", too_many(lab));
        verdicts.judge("a backup with bits and owners", bits(lab));
        verdicts.judge("places that are links", linked_places(lab));
        verdicts.judge("a configuration that is none", no_configuration(lab));
        verdicts.judge("restores that are killed", killed(lab));
        verdicts.judge("swapped keys", swapped(lab));
        verdicts.judge("a restore while Rosemary starts", while_it_starts(lab));
        verdicts.finish()
    });
}

fn paths(lab: &Lab) -> anyhow::Result<String> {
    let long = "x".repeat(99);
    let paths = [
        "/etc/evil",
        "../etc/evil",
        "config/../../evil",
        "pki/../../../etc/evil",
        "state/./../../evil",
        "config//../../evil",
        "CONFIG/evil",
        "home/evil",
        "config\\..\\evil",
        "pki/.restore-x/../../../evil",
        "\u{2e}\u{2e}/evil",
        "state/state.lock",
        "state/before-restore-1/evil",
        "config/before-restore-1/evil",
        "./../evil",
        "",
        "/",
        "..",
        &long,
    ];
    for path in paths {
        make(&[file("config/rosemary.toml", CONFIG), file(path, "evil")])?;
        refused(lab, &["/etc", "/var/lib/rosemary", "/run/lab/evil"], &["--force"])
            .with_context(|| format!("{path:?}"))?;
    }
    // The longer names of GNU tar and pax replace the name in the header.
    for (kind, name) in [
        (b'L', "../../../etc/evil\0".to_owned()),
        (b'x', "26 path=../../../etc/evil\n".into()),
        (b'x', "21 path=config/ev\0il\n".into()),
    ] {
        let mut entry = file("././@LongLink", &name);
        entry.kind = tar::EntryType::new(kind);
        make(&[file("config/rosemary.toml", CONFIG), entry, file("config/x", "evil")])?;
        refused(lab, &["/etc", "/var/lib/rosemary"], &["--force"]).with_context(|| name)?;
    }
    Ok(format!("{} paths refused, no file written", paths.len() + 3))
}

fn kinds(lab: &Lab) -> anyhow::Result<String> {
    let app = "[[app]]\nname = \"learning-switch\"\nconfig = \"a\"\n";
    // Hard link, link, two devices, directory, pipe, contiguous file, two sparse files of GNU, a volume.
    let kinds = [b'1', b'2', b'3', b'4', b'6', b'7', b'S', b'V', b'M', b'g', b'Z'];
    for kind in kinds {
        for target in ["/etc/passwd", "../../evil"] {
            for place in ["config/a", "pki/a", "state/a"] {
                let behind = format!("{place}/evil");
                make(&[
                    file("config/rosemary.toml", app),
                    special(place, kind, Some(target)),
                    file(&behind, "evil"),
                ])?;
                refused(lab, &["/etc", "/var/lib/rosemary"], &["--force"])
                    .with_context(|| format!("{}", kind as char))?;
            }
        }
    }
    Ok(format!("{} kinds refused in 3 places", kinds.len()))
}

/// The configuration is in a directory that it shares with others, as /etc. The backup has further files for that directory.
fn beside(lab: &Lab) -> anyhow::Result<String> {
    let dir = "/run/lab/shared";
    fs::create_dir_all(format!("{dir}/cron.d"))?;
    fs::write(format!("{dir}/cron.d/good"), "good")?;
    let config = format!("{dir}/rosemary.toml");
    let (state, keys) = (format!("{dir}/state"), format!("{dir}/keys"));
    let more = ["--config", &config, "--state-dir", &state, "--tls-dir", &keys];
    let forced = [&more[..], &["--force"]].concat();
    for name in ["ld.so.preload", "cron.d/evil", "passwd", ".profile", "profile.d/evil.sh"] {
        let path = format!("config/{name}");
        make(&[file("config/rosemary.toml", CONFIG), file(&path, "evil")])?;
        for more in [&more[..], &forced] {
            refused(lab, &[dir], more).with_context(|| name)?;
        }
    }
    Ok("no file that the configuration does not name".into())
}

/// The keys would have the place of others without the checks of keys: permissions, and revocations that stay.
fn keys_elsewhere(lab: &Lab) -> anyhow::Result<String> {
    let before = fs::read("/etc/rosemary/pki/api/revoked.json")?;
    let app = "[[app]]\nname = \"learning-switch\"\nconfig = \"pki/api/revoked.json\"\n";
    for config in [CONFIG, app] {
        let keys =
            [file("config/pki/api/revoked.json", "[]"), file("config/pki/ca-cert.pem", "evil")];
        let [one, other] = keys;
        make(&[file("config/rosemary.toml", config), one, other])?;
        refused(lab, &PLACES, &["--force"])?;
    }
    // The other way: the list in its own place is older than the present one.
    let (code, said) = run(lab, &["backup", FILE, "--force", "--password-file", PASSWORD_FILE])?;
    ensure!(code == Some(0), "{said}");
    run(lab, &["pki", "user", "bob", "--role", "admin"])?;
    run(lab, &["pki", "revoke-user", "bob"])?;
    let (code, said) = restore(lab, &["--force"])?;
    ensure!(code == Some(0), "{said}");
    let after = fs::read_to_string("/etc/rosemary/pki/api/revoked.json")?;
    ensure!(
        after.contains("bob") && after.contains("alice") && after.as_bytes() != before,
        "{after}"
    );
    Ok("both revocations are in force".into())
}

/// Names of 96 MiB, in both forms.
fn endless_names(lab: &Lab) -> anyhow::Result<String> {
    let name = "x".repeat(96 << 20);
    let pax = format!("{} path={name}\n", name.len() + 16);
    let mut most = 0;
    for (kind, text) in [(b'L', &name), (b'x', &pax)] {
        let mut entry = file("name", text);
        entry.kind = tar::EntryType::new(kind);
        make(&[entry, file("config/x", "evil")])?;
        let before = contents(&PLACES)?;
        let mut command = lab.command("/usr/bin/time");
        command.args(["-f", "%M"]).arg(rosemary_binary());
        command.args(["restore", FILE, "--force", "--password-file", PASSWORD_FILE]);
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && said.len() < 10_000, "{} bytes were said", said.len());
        let kib =
            said.lines().last().and_then(|line| line.parse::<u64>().ok()).context("a number")?;
        most = most.max(kib);
        ensure!(contents(&PLACES)?.len() == before.len(), "files were written");
    }
    ensure!(most < MEMORY, "it took {most} KiB");
    Ok(format!("at most {most} KiB"))
}

fn too_many(lab: &Lab) -> anyhow::Result<String> {
    let names: Vec<String> = (0..100_010).map(|number| format!("state/{number}")).collect();
    let entries: Vec<_> = names.iter().map(|name| file(name, "")).collect();
    make(&entries)?;
    let said = refused(lab, &PLACES, &["--force"])?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// Bits of users, groups and the world, and the owner in the archive, do not reach the files.
fn bits(lab: &Lab) -> anyhow::Result<String> {
    let mut entries = [
        file("config/rosemary.toml", CONFIG),
        special("state/apps/", b'5', None),
        file("state/apps/x", ""),
        file("pki/x", ""),
    ];
    for entry in &mut entries {
        entry.mode = 0o7777;
    }
    make(&entries)?;
    let dir = "/run/lab/bits";
    let [config, state, keys] =
        ["rosemary.toml", "state", "keys"].map(|name| format!("{dir}/{name}"));
    fs::create_dir(dir)?;
    let (code, said) =
        restore(lab, &["--config", &config, "--state-dir", &state, "--tls-dir", &keys])?;
    ensure!(code == Some(0), "{said}");
    let found = contents(&[dir])?;
    for (path, (mode, uid, _)) in &found {
        ensure!(mode & 0o7022 == 0 && *uid == 0, "{}: {mode:o} of {uid}", path.display());
    }
    Ok(format!("{} files of root without these bits", found.len()))
}

/// A link in the place of a directory: what it leads to is the operator's choice, and files in it that are not replaced stay.
fn linked_places(lab: &Lab) -> anyhow::Result<String> {
    let dir = "/run/lab/linked";
    fs::create_dir_all(format!("{dir}/others"))?;
    fs::write(format!("{dir}/others/theirs"), "theirs")?;
    symlink("/run/lab/linked/others", format!("{dir}/rosemary.toml"))?;
    symlink("/run/lab/linked/nothing", format!("{dir}/state"))?;
    make(&[file("config/rosemary.toml", CONFIG), file("state/apps.json", "{}")])?;
    let [config, state, keys] =
        ["rosemary.toml", "state", "keys"].map(|name| format!("{dir}/{name}"));
    let more = ["--config", &config, "--state-dir", &state, "--tls-dir", &keys, "--force"];
    let (code, said) = restore(lab, &more)?;
    ensure!(fs::read_to_string(format!("{dir}/others/theirs"))? == "theirs", "{said}");
    let there = contents(&[&format!("{dir}/others")])?.len();
    ensure!(there == 2, "{there} files: {said}");
    Ok(format!("exit code {code:?}; the directory behind the link is as before"))
}

fn no_configuration(lab: &Lab) -> anyhow::Result<String> {
    let deep = format!("a = {}", "[".repeat(200_000));
    let dir = "[controller]\nstate-dir = \"/root\"\n";
    let texts = [deep.as_str(), dir, "[[app]]\nname = \"../x\"\n", "\u{feff}\u{0}", "= = ="];
    for text in texts {
        make(&[file("config/rosemary.toml", text), file("state/apps.json", "{}")])?;
        refused(lab, &PLACES, &["--force"])?;
    }
    let mut latin = file("config/rosemary.toml", "");
    latin.content = b"[controller]\nstate-dir = \"/root\" # \xff\n";
    make(&[latin])?;
    refused(lab, &PLACES, &["--force"])?;
    make(&[special("config/rosemary.toml/", b'5', None), file("config/rosemary.toml/x", "")])?;
    refused(lab, &PLACES, &["--force"])?;
    Ok(format!("{} refused", texts.len() + 2))
}

/// Whenever a restore is killed, each old file is in its place or in a directory beside it, and the next restore succeeds.
fn killed(lab: &Lab) -> anyhow::Result<String> {
    let mut random = Random::from(5);
    fs::write("/var/lib/rosemary/apps.json", "{\"old\": 1}")?;
    let big = "x".repeat(4 << 20);
    make(&[
        file("config/rosemary.toml", CONFIG),
        file("pki/ca-cert.pem", "new"),
        file("state/storage.redb", &big),
        file("state/apps.json", "{}"),
    ])?;
    let key = fs::read("/etc/rosemary/pki/controller-key.pem")?;
    for number in 0..25 {
        let mut command = lab.command(rosemary_binary());
        command.args(["restore", FILE, "--force", "--password-file", PASSWORD_FILE]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        thread::sleep(random.up_to(Duration::from_millis(200)));
        child.kill()?;
        child.wait()?;
        let all = contents(&PLACES)?;
        let has = |bytes: &[u8]| all.values().any(|(_, _, its)| its == bytes);
        ensure!(has(&key), "kill {number}: the old key is gone");
        ensure!(has(b"{\"old\": 1}"), "kill {number}: the old state is gone");
        let open = all.iter().find(|(path, (mode, ..))| {
            let is_aside = path.to_string_lossy().contains(".restore-")
                || path.to_string_lossy().contains("before-restore");
            is_aside
                && path.is_dir()
                && path
                    .parent()
                    .is_some_and(|it| it == Path::new(PLACES[0]) || it == Path::new(PLACES[1]))
                && mode & 0o077 != 0
        });
        ensure!(open.is_none(), "others may look into {open:?}");
    }
    let (code, said) = restore(lab, &["--force"])?;
    ensure!(code == Some(0), "{said}");
    ensure!(fs::read("/etc/rosemary/pki/ca-cert.pem")? == b"new", "it is not restored");
    Ok("25 kills, nothing was lost".into())
}

/// Keys that do not belong together, or that others may read, are never used, and plain TCP is not the result.
fn swapped(lab: &Lab) -> anyhow::Result<String> {
    let [good, other] = [Pki::init(lab, "good")?, Pki::init(lab, "other")?];
    let read = |pki: &Pki<'_>, name: &str| fs::read_to_string(pki.file(name));
    let (cert, ca) = (read(&good, "controller-cert.pem")?, read(&good, "ca-cert.pem")?);
    let (key, theirs) = (read(&good, "controller-key.pem")?, read(&other, "controller-key.pem")?);
    let ca_key = read(&good, "ca-key.pem")?;
    for (key, mode, why) in [
        (&theirs, 0o600, "not the key"),
        (&ca_key, 0o600, "not the key"),
        (&key, 0o644, "chmod 600"),
    ] {
        let mut its = file("pki/controller-key.pem", key);
        its.mode = mode;
        make(&[
            file("config/rosemary.toml", CONFIG),
            file("pki/controller-cert.pem", &cert),
            file("pki/ca-cert.pem", &ca),
            its,
        ])?;
        let (code, said) = restore(lab, &["--force"])?;
        ensure!(code == Some(0), "{said}");
        let output = lab
            .command("timeout")
            .arg("20")
            .arg(rosemary_binary())
            .args(["up", "--allow-unsigned"])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            matches!(output.status.code(), Some(1 | 78)) && said.contains(why),
            "{why}: {said}"
        );
    }
    Ok("3 sets of keys refused at the start".into())
}

/// A restore and a start exclude each other, whichever is first.
fn while_it_starts(lab: &Lab) -> anyhow::Result<String> {
    for place in PLACES {
        lab.run("find", &[place, "-mindepth", "1", "-delete"])?;
    }
    make(&[file("config/rosemary.toml", CONFIG), file("state/apps.json", "{}")])?;
    let mut restored = 0;
    for number in 0..6 {
        fs::write("/etc/rosemary/rosemary.toml", CONFIG)?;
        let mut command = lab.command("sh");
        let script = format!("sleep 0.{number}; exec \"$@\"");
        command.args(["-c", &script, "sh"]).arg(rosemary_binary());
        command.args(["restore", FILE, "--force", "--password-file", PASSWORD_FILE]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let restoring = command.spawn()?;
        let started = Rosemary::start_with(lab, &rosemary_binary(), &[]);
        let output = restoring.wait_with_output()?;
        restored += usize::from(output.status.success());
        let Ok(mut rosemary) = started else {
            ensure!(
                output.status.success(),
                "neither: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            continue;
        };
        if number == 5 {
            let s1 = lab.switch("s1", Of::V1_3)?;
            rosemary.wait_for_switch(&s1)?;
        }
        let (code, said) = restore(lab, &["--force"])?;
        ensure!(code == Some(1) && said.contains("Rosemary runs"), "{code:?} {said}");
        rosemary.wait_for("it answers", SOON, |_| Some(()))?;
        rosemary.stop(Signal::TERM)?;
    }
    let mode = fs::metadata("/var/lib/rosemary/state.lock")?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}");
    Ok(format!("{restored} of 6 restores came first"))
}
