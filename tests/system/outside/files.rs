//! Attacks by files: packages that change, race or are none, locks of other users, and links where Rosemary writes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, Running};
use control::operator::ProgramState;
use rosemary_tests::developer::{Developer, INSTALLED, Quality, must_be_audited, rosemary, trust};
use rosemary_tests::net::{APP, Net, SOON};
use rosemary_tests::random::Random;
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};
use rustix::fs::{CWD, FileType, mknodat};

use super::beside::run;

const LIMIT: Duration = Duration::from_secs(500);

/// A user of the machine who has no rights.
const USER: &str = "61234";

/// Where Rosemary and its operators keep files.
const PLACES: [&str; 3] = ["/var/lib/rosemary", "/run/rosemary", "/etc/rosemary"];

/// The longest a refused file may take.
const SHORT: Duration = Duration::from_secs(10);

/// Rosemary with an installed package beside the learning switch, and further packages of the same app.
struct Packages<'lab> {
    net: Net<'lab>,
    joe: Developer,
    /// Versions 0.1.0 and 0.2.0, and another package of 0.1.0.
    old: String,
    new: String,
    other: String,
}

impl<'lab> Packages<'lab> {
    fn start(lab: &'lab Lab) -> anyhow::Result<Self> {
        let joe = Developer::new(lab, "joe")?;
        joe.package(lab, "hub", "")?;
        let kept = |version: &str, quality, name: &str| -> anyhow::Result<String> {
            let package = joe.version(lab, version, quality)?;
            let copy = joe.home.join(name).display().to_string();
            fs::copy(&package, &copy)?;
            fs::copy(format!("{package}.minisig"), format!("{copy}.minisig"))?;
            Ok(copy)
        };
        let old = kept("0.1.0", Quality::Good, "old.rosemary")?;
        let other = kept("0.1.0", Quality::Crashing, "other.rosemary")?;
        let new = kept("0.2.0", Quality::Good, "new.rosemary")?;
        let apps = format!("[[app]]\nname = \"{APP}\"\n[[app]]\nname = \"hub\"\n");
        trust(&[&joe.trust("")], &apps)?;
        rosemary(lab, &["app", "install", &old])?;
        let rosemary = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        let net = Net::of(lab, Of::V1_3, rosemary)?;
        ensure!(net.h1.ping(&net.h2, 5, rosemary_tests::net::INTERVAL)?.received > 0);
        Ok(Self { net, joe, old, new, other })
    }

    /// The package that is installed: good, or refused with a reason.
    fn listed(&self) -> anyhow::Result<serde_json::Value> {
        let list = rosemary(self.net.lab, &["app", "list", "--json"])?;
        Ok(serde_json::from_str::<serde_json::Value>(&list)?[0].take())
    }
}

/// Runs `rosemary`, which may take `limit`. Returns its exit code, none for a kill after that, and what it said.
fn short(lab: &Lab, args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let begin = Instant::now();
    let mut command = lab.command("timeout");
    let limit = (2 * SHORT).as_secs().to_string();
    let command = command.args(["-s", "KILL", &limit]).arg(rosemary_binary()).args(args);
    let output = command.stdin(Stdio::null()).output()?;
    let took = begin.elapsed();
    ensure!(took < SHORT, "{args:?} took {took:?}");
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn packages_are_installed_whole_or_not_at_all() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut it = Packages::start(lab)?;
        let mut verdicts = Verdicts::default();
        let (old, new, other) = (it.old.clone(), it.new.clone(), it.other.clone());
        let mut judge =
            |it: &mut Packages<'_>,
             name: &str,
             attack: &dyn Fn(&mut Packages<'_>) -> anyhow::Result<String>| {
                let outcome = attack(it);
                verdicts.judge(
                    name,
                    outcome.and_then(|seen| {
                        it.net.rosemary.must_run().map(|()| seen).map_err(Into::into)
                    }),
                );
            };
        judge(&mut it, "locks of another user on every file", &|it| locks(lab, it, &new));
        judge(&mut it, "forty installations at once", &|it| {
            at_once(lab, it, &[&old, &new, &other])
        });
        judge(&mut it, "installations that are killed", &|it| killed(lab, it, &[&old, &new]));
        judge(&mut it, "upgrades that are killed", &|it| killed_upgrades(lab, it, &[&old, &new]));
        judge(&mut it, "a package that changes while it is read", &|it| changing(lab, it));
        judge(&mut it, "packages that are none", &|it| not_packages(lab, it));
        judge(&mut it, "the same version with other code", &|it| other_code(lab, it));
        judge(&mut it, "names that lead elsewhere", &|it| names(lab, it));
        judge(&mut it, "a link in place of the file to be written", &|it| links(lab, it));
        verdicts.finish()
    });
}

/// Another user locks all files and directories that he can open. Nothing of Rosemary waits for that.
fn locks(lab: &Lab, it: &mut Packages<'_>, package: &str) -> anyhow::Result<String> {
    let _held = hold_locks(lab)?;
    let (code, said) = short(lab, &["app", "install", package])?;
    ensure!(code == Some(0), "no installation: {code:?} {said}");
    let (code, said) = short(lab, &["reload", "--yes"])?;
    ensure!(code == Some(0), "no reload: {code:?} {said}");
    it.net.rosemary.wait_for("the new version runs", SOON, |status| {
        let app = status.app("hub")?;
        (app.state == ProgramState::Running && app.version.as_deref() == Some("0.2.0"))
            .then_some(())
    })?;
    let (code, said) =
        short(lab, &["backup", "/run/lab/b.age", "--password-file", &it.joe.password])?;
    ensure!(code == Some(0), "no backup: {code:?} {said}");
    Ok("installed, reloaded and saved".into())
}

/// The other user, who holds locks until this is dropped.
fn hold_locks(lab: &Lab) -> anyhow::Result<Running> {
    let places = PLACES.join(" ");
    let script = format!(
        "n=9; for f in $(find {places} 2>/dev/null); do n=$((n + 1)); [ -p \"$f\" ] || [ -S \"$f\" ] || \
         eval \"exec $n<\\\"$f\\\"\" 2>/dev/null && flock -xn $n && echo \"locked $f\"; done; echo all; sleep 1000"
    );
    let mut command = lab.command("setpriv");
    let user = ["--reuid", USER, "--regid", USER, "--clear-groups"];
    command.args(user).args(["bash", "-c", &script]).stdin(Stdio::null());
    let running = lab.start("locks", command)?;
    lab.wait_for("the other user holds locks", SOON, |evidence| {
        evidence.0 = running.stdout() + &running.stderr();
        Ok(evidence.0.contains("all").then_some(()))
    })?;
    ensure!(running.stdout().contains("locked "), "he could lock nothing: {}", running.stderr());
    println!("{}", running.stdout());
    Ok(running)
}

/// Whatever wins, the installed package is one of these, and nothing else is left.
fn at_once(lab: &Lab, it: &mut Packages<'_>, packages: &[&str]) -> anyhow::Result<String> {
    let install = |number: usize| -> anyhow::Result<std::process::Child> {
        let mut command = lab.command(rosemary_binary());
        command.args(["app", "install", "--yes", packages[number % packages.len()]]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command.spawn()?)
    };
    let children = (0..40).map(install).collect::<anyhow::Result<Vec<_>>>()?;
    let mut failed = 0;
    for child in children {
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!said.contains("panicked") && output.status.code().is_some(), "{said}");
        failed += usize::from(!output.status.success());
    }
    is_one_of(it, packages)?;
    Ok(format!("{failed} of 40 failed, one package is left"))
}

/// Checks that the installed file is exactly one of these, with its signature, and that no other file is beside it.
fn is_one_of(it: &Packages<'_>, packages: &[&str]) -> anyhow::Result<()> {
    let listed = it.listed()?;
    ensure!(listed["refused"].is_null(), "{listed}");
    let installed = fs::read(INSTALLED)?;
    let is_it = |package: &&&str| fs::read(package).is_ok_and(|its| its == installed);
    ensure!(packages.iter().any(|package| is_it(&package)), "an unknown package is installed");
    Ok(())
}

/// A kill leaves the old or the new package, or one that is refused; the next installation repairs that, and the app runs.
fn killed(lab: &Lab, it: &mut Packages<'_>, packages: &[&str]) -> anyhow::Result<String> {
    let (mut refused, mut random) = (0, Random::from(7));
    let pid = pid_of(it, "hub")?;
    for number in 0..30 {
        let mut command = lab.command(rosemary_binary());
        let command = command.args(["app", "install", "--yes", packages[number % packages.len()]]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        thread::sleep(random.up_to(Duration::from_millis(250)));
        child.kill()?;
        child.wait()?;
        let listed = it.listed()?;
        if !listed["refused"].is_null() {
            refused += 1;
            let (code, said) = short(lab, &["app", "install", "--yes", packages[0]])?;
            ensure!(code == Some(0), "{said}");
        }
        is_one_of(it, packages)?;
    }
    ensure!(pid_of(it, "hub")? == pid, "the app was restarted");
    Ok(format!("30 kills, {refused} left a package that is refused and can be replaced"))
}

fn pid_of(it: &mut Packages<'_>, app: &str) -> anyhow::Result<u32> {
    Ok(it.net.rosemary.wait_for("the app runs", SOON, |status| {
        status.app(app).filter(|app| app.state == ProgramState::Running)?.pid
    })?)
}

/// After each kill the app runs one of the versions, and the next upgrade is possible.
fn killed_upgrades(lab: &Lab, it: &mut Packages<'_>, packages: &[&str]) -> anyhow::Result<String> {
    let mut random = Random::from(11);
    for number in 0..12 {
        let mut command = lab.command(rosemary_binary());
        let command = command.args(["app", "upgrade", "--yes", packages[number % packages.len()]]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        thread::sleep(random.up_to(Duration::from_millis(700)));
        child.kill()?;
        child.wait()?;
        it.net.rosemary.wait_for("the app runs", SOON * 2, |status| {
            status.app("hub").filter(|app| app.state == ProgramState::Running).map(drop)
        })?;
    }
    let done = lab.wait_for("a last upgrade", SOON * 3, |evidence| {
        let (code, said) = run(lab, &["app", "upgrade", "--yes", packages[1]]).unwrap_or_default();
        evidence.0 = said;
        Ok((code == Some(0)).then_some(()))
    });
    done?;
    is_one_of(it, packages)?;
    must_be_audited(lab, &["user 0 requested: upgrade hub..."])?;
    Ok("12 kills, and a version ran after each".into())
}

/// A writer exchanges the package for one without a signature, again and again, with and without an atomic rename.
fn changing(lab: &Lab, it: &mut Packages<'_>) -> anyhow::Result<String> {
    let (dir, good) = (it.joe.home.clone(), fs::read(&it.new)?);
    let path = dir.join("changing.rosemary");
    fs::copy(format!("{}.minisig", it.new), dir.join("changing.rosemary.minisig"))?;
    let mut bad = good.clone();
    let at = bad.len() / 2;
    bad[at] ^= 1;
    let is_over = AtomicBool::new(false);
    let (mut installed, mut refused) = (0, 0);
    thread::scope(|scope| -> anyhow::Result<()> {
        scope.spawn(|| {
            let beside = dir.join("beside");
            while !is_over.load(Ordering::Relaxed) {
                for bytes in [&good, &bad] {
                    let _ = fs::write(&path, bytes);
                    thread::sleep(Duration::from_millis(7));
                    let _ = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &path));
                }
            }
        });
        let outcome = (0..40).try_for_each(|_| {
            let (code, said) = run(lab, &["app", "install", "--yes", &path.display().to_string()])?;
            ensure!(!said.contains("panicked"), "{said}");
            if code == Some(0) {
                installed += 1;
            } else {
                refused += 1;
            }
            ensure!(fs::read(INSTALLED)? != bad, "an unsigned package is installed");
            ensure!(it.listed()?["refused"].is_null(), "{}", it.listed()?);
            anyhow::Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        outcome
    })?;
    ensure!(refused > 0, "no changed package was read");
    Ok(format!("{installed} readings installed, {refused} refused"))
}

/// Puts something at a path.
type Make<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;

/// Pipes, devices, directories, links to secrets and huge files in place of a package, its signature, and the app's sources.
fn not_packages(lab: &Lab, it: &mut Packages<'_>) -> anyhow::Result<String> {
    let dir = it.joe.home.join("none");
    fs::create_dir(&dir)?;
    let secret = lab.files().join("secret");
    fs::write(&secret, "untrusted comment: the secret of root\nthe-secret-of-root\n")?;
    let before = fs::read(INSTALLED)?;
    let kinds: &[(&str, Make<'_>)] = &[
        ("pipe", &|path| Ok(mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0)?)),
        ("zeros", &|path| symlink("/dev/zero", path)),
        ("loop", &|path| symlink(path, path)),
        ("directory", &|path| fs::create_dir(path)),
        ("secret", &|path| symlink(&secret, path)),
        ("process", &|path| symlink("/proc/self/mem", path)),
        ("hole", &|path| fs::File::create(path)?.set_len(1 << 42)),
        ("empty", &|path| fs::File::create(path).map(drop)),
    ];
    for (kind, make) in kinds {
        for is_signature in [false, true] {
            let package = dir.join(format!("{kind}-{is_signature}.rosemary"));
            let signature = PathBuf::from(format!("{}.minisig", package.display()));
            let (odd, good, from) = if is_signature {
                (&signature, &package, it.new.clone())
            } else {
                (&package, &signature, format!("{}.minisig", it.new))
            };
            make(odd)?;
            fs::copy(from, good)?;
            for verb in ["verify", "install"] {
                let (code, said) = short(lab, &["app", verb, &package.display().to_string()])?;
                ensure!(matches!(code, Some(1 | 78)), "{kind}: {code:?} {said}");
                ensure!(!said.contains("the-secret-of-root"), "{kind}: {said}");
            }
        }
    }
    ensure!(fs::read(INSTALLED)? == before, "the installed package changed");
    Ok(format!("{} refusals", kinds.len() * 4))
}

/// An upgrade and an installation without the operator's word change nothing; a crashing version is taken back.
fn other_code(lab: &Lab, it: &mut Packages<'_>) -> anyhow::Result<String> {
    run(lab, &["app", "upgrade", "--yes", &it.old])?;
    run(lab, &["app", "upgrade", "--yes", &it.new])?;
    let before = fs::read(INSTALLED)?;
    ensure!(before == fs::read(&it.new)?, "0.2.0 is installed");
    for package in [&it.old, &it.other] {
        for verb in ["install", "upgrade"] {
            let (code, said) = short(lab, &["app", verb, package])?;
            ensure!(code == Some(1) && said.contains("--yes"), "{verb}: {code:?} {said}");
        }
    }
    ensure!(fs::read(INSTALLED)? == before, "an older package was installed");
    // The same with a file of another signer, renamed.
    let ann = Developer::new(lab, "ann")?;
    fs::copy(&it.new, ann.home.join("hub.rosemary"))?;
    let package = ann.home.join("hub.rosemary").display().to_string();
    ann.sign(lab, &package)?;
    let (code, said) = short(lab, &["app", "install", "--yes", &package])?;
    ensure!(code != Some(0) && fs::read(INSTALLED)? == before, "{code:?} {said}");
    Ok("4 older and 1 foreign package refused".into())
}

/// Names of apps and packages with separators, dots and links, signed by a trusted developer.
fn names(lab: &Lab, it: &mut Packages<'_>) -> anyhow::Result<String> {
    let before = tree(Path::new("/var/lib/rosemary"))?;
    let long = "a".repeat(300);
    let names = [
        "../../../etc/cron.d/x",
        "..",
        "hub/../../x",
        "hub\\u0000x",
        "HUB",
        "hub.rosemary",
        "",
        &long,
    ];
    for name in names {
        let manifest = format!("name = \"{name}\"\nversion = \"9.0.0\"\nstage = \"observe\"\n");
        // `rosemary app build` refuses such a name, so the package is packed here.
        let object = fs::read(it.joe.dir("hub").join("libhub.so"))?;
        let text = manifest.replace("\\u0000", "\0");
        let package = it.joe.home.join("named.rosemary");
        fs::write(&package, pack(&text, &object)?)?;
        let package = package.display().to_string();
        if it.joe.sign(lab, &package).is_err() {
            continue; // the developer's command refuses it, too
        }
        let (code, said) = short(lab, &["app", "install", "--yes", &package])?;
        ensure!(code != Some(0), "{name:?}: {said}");
    }
    for name in ["../x", "/etc/passwd", ".."] {
        for verb in ["remove", "start", "stop", "rollback"] {
            let (code, said) = short(lab, &["app", verb, name])?;
            ensure!(code != Some(0), "{verb} {name}: {said}");
        }
    }
    ensure!(tree(Path::new("/var/lib/rosemary"))? == before, "files were written");
    ensure!(!Path::new("/etc/cron.d/x.rosemary").exists());
    Ok(format!("{} names refused", names.len()))
}

/// The archive that `rosemary app build` would make (`crates/package/src/archive.rs`).
fn pack(manifest: &str, object: &[u8]) -> anyhow::Result<Vec<u8>> {
    package::pack(manifest, object).context("it is too long")
}

/// The names of all files below `dir`, except for those of services, which write all the time.
fn tree(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new("find");
    let output = command
        .arg(dir)
        .args(["-not", "-name", "*.redb", "-not", "-path", "*/incidents/*"])
        .output()?;
    let mut names: Vec<String> =
        String::from_utf8(output.stdout)?.lines().map(ToOwned::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Links where a command is going to write: what they lead to stays.
fn links(lab: &Lab, it: &mut Packages<'_>) -> anyhow::Result<String> {
    // In the same file system, as a hard link must be.
    let victim = Path::new("/var/lib/rosemary/victim");
    fs::write(victim, "untouched")?;
    fs::set_permissions(victim, fs::Permissions::from_mode(0o640))?;
    let places = [
        format!("{INSTALLED}.new"),
        format!("{INSTALLED}.minisig.new"),
        format!("{INSTALLED}.next"),
        format!("{INSTALLED}.next.minisig"),
        "/var/lib/rosemary/apps/guards.json.new".into(),
        "/var/lib/rosemary/enabled.json.new".into(),
        "/var/lib/rosemary/apps.json.new".into(),
        "/var/lib/rosemary/demoted.json.new".into(),
    ];
    for (number, place) in places.iter().enumerate() {
        let _ = fs::remove_file(place);
        if number % 2 == 0 { symlink(victim, place)? } else { fs::hard_link(victim, place)? }
    }
    run(lab, &["app", "upgrade", "--yes", &it.old])?;
    run(lab, &["app", "install", "--yes", &it.new])?;
    run(lab, &["app", "disable", "hub"])?;
    run(lab, &["app", "enable", "hub"])?;
    run(lab, &["reload", "--yes"])?;
    let backup = lab.files().join("linked.age");
    symlink(victim, &backup)?;
    let backup = backup.display().to_string();
    let password = it.joe.password.clone();
    run(lab, &["backup", &backup, "--password-file", &password])?;
    run(lab, &["backup", &backup, "--force", "--password-file", &password])?;
    ensure!(fs::read_to_string(victim)? == "untouched", "a file of somebody was written");
    let mode = fs::metadata(victim)?.permissions().mode() & 0o777;
    ensure!(mode == 0o640, "its mode became {mode:o}");
    pid_of(it, "hub")?;
    Ok(format!("{} links, and the file that they lead to is untouched", places.len() + 1))
}
