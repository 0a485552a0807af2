//! `[start] verify`: programs and apps of an installation are checked before they run, and replaced from the recovery copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab_without_capture, rosemary_binary, schema};
use rustix::process::Signal;

const APP: &str = "lib/rosemary/apps/forwarding.so";
const KERNEL: &str = "libexec/rosemary/rosemary-kernel";
const MONITOR: &str = "libexec/rosemary/rosemary-monitor";
const COPY: &str = "lib/rosemary/recovery";

/// The programs that a start with the default apps needs.
const PROGRAMS: [&str; 7] = [
    "rosemary-monitor",
    "rosemary-kernel",
    "rosemary-zone",
    "rosemary-log",
    "rosemary-storage",
    "rosemary-security",
    "rosemary-verify",
];

/// The default apps, and those whose services they use.
const APPS: [&str; 4] = ["forwarding", "hosts", "stats", "topology"];

/// An installation of the programs that belong to this test, without their debug information, with a signed manifest.
struct Installed {
    root: PathBuf,
}

fn succeeds(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

impl Installed {
    fn new(lab: &Lab) -> anyhow::Result<Self> {
        let root = lab.files().join("installed");
        let binary = rosemary_binary();
        let build = binary.parent().context("the build has a directory")?;
        for dir in ["bin", "libexec/rosemary", "lib/rosemary/apps"] {
            fs::create_dir_all(root.join(dir))?;
        }
        let strip = |from: &Path, to: &str| {
            succeeds(Command::new("strip").arg("-o").arg(root.join(to)).arg(from))
        };
        strip(&binary, "bin/rosemary")?;
        for program in PROGRAMS {
            strip(&build.join(program), &format!("libexec/rosemary/{program}"))?;
        }
        for app in APPS {
            let object = build.join(format!("examples/lib{app}.so"));
            strip(&object, &format!("lib/rosemary/apps/{app}.so"))?;
        }
        let installed = Self { root };
        installed.release("1")?;
        Ok(installed)
    }

    /// Makes and signs the manifest and the copy, with a new key.
    fn release(&self, number: &str) -> anyhow::Result<()> {
        let mut make = Command::new(rosemary_binary());
        make.args(["release", "make"]).arg(&self.root).args(["--number", number]);
        succeeds(make.args(["--file=bin", "--file=libexec", "--file=lib/rosemary/apps"]))?;
        let mut sign = Command::new(rosemary_binary());
        succeeds(sign.args(["release", "sign", "--new-key"]).arg(&self.root))?;
        Ok(())
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn flip(&self, path: &str) -> anyhow::Result<()> {
        let mut content = fs::read(self.file(path))?;
        let middle = content.len() / 2;
        content[middle] ^= 1;
        // A program that runs cannot be written; the file of the next start is another one.
        fs::remove_file(self.file(path))?;
        fs::write(self.file(path), content)?;
        let mode = if path.ends_with(".so") { 0o644 } else { 0o755 };
        fs::set_permissions(self.file(path), std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        Ok(())
    }

    fn is_released(&self, path: &str) -> anyhow::Result<bool> {
        Ok(fs::read(self.file(path))? == fs::read(self.file(COPY).join(path))?)
    }

    fn start<'lab>(&self, lab: &'lab Lab, policy: &str) -> anyhow::Result<Rosemary<'lab>> {
        write_policy(policy)?;
        let started = Instant::now();
        let up = Rosemary::start_by(lab, &self.file("bin/rosemary"), &["up", "--no-northbound"])?;
        println!("{policy}: up after {} ms", started.elapsed().as_millis());
        Ok(up)
    }

    /// Starts it, which must fail. Returns the exit code and what it wrote.
    fn refused(&self, lab: &Lab, args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        write_policy("require")?;
        let mut up = lab.command(self.file("bin/rosemary"));
        let output = up.args(["up", "--no-northbound"]).args(args).output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    }

    fn text(&self, lab: &Lab, args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let output = lab.command(self.file("bin/rosemary")).args(args).output()?;
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    }

    fn verify(&self, heal: bool) -> anyhow::Result<(Option<i32>, String)> {
        let mut verify = Command::new(self.file("libexec/rosemary/rosemary-verify"));
        let output = verify.args(heal.then_some("--heal")).output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    }
}

fn write_policy(policy: &str) -> anyhow::Result<()> {
    Ok(fs::write("/etc/rosemary/rosemary.toml", format!("[start]\nverify = \"{policy}\"\n"))?)
}

#[test]
fn changed_files_are_replaced_before_they_run() {
    in_a_lab_without_capture(|lab| {
        let installed = Installed::new(lab)?;
        for path in [APP, KERNEL, MONITOR] {
            installed.flip(path)?;
        }
        let mut up = installed.start(lab, "require")?;
        up.wait_for_log(&["replaced it from the recovery copy", "forwarding.so"], SOON)?;
        for path in [APP, KERNEL, MONITOR] {
            ensure!(installed.is_released(path)?, "{path}");
        }
        let kernel = up.status()?.context("it runs")?.programs.kernel.pid.context("it runs")?;
        ensure!(fs::read_to_string(format!("/proc/{kernel}/comm"))? == "rosemary-kernel\n");
        ensure!(fs::read_link(format!("/proc/{kernel}/exe"))? == installed.file(KERNEL));
        let (code, json) = installed.text(lab, &["status", "--provenance", "--json"])?;
        schema::check("provenance", &json)?;
        let json: serde_json::Value = serde_json::from_str(&json)?;
        let state = |path: &str| {
            let files = json["files"].as_array().into_iter().flatten();
            files.filter(|it| it["path"] == path).map(|it| it["state"].clone()).next()
        };
        ensure!(code == Some(3) && state(APP) == Some("replaced".into()), "{json:#}");
        ensure!(state(KERNEL) == Some("replaced".into()), "{json:#}");
        // `rosemary up` has replaced it, before the monitor could look.
        ensure!(state(MONITOR) == Some("released".into()), "{json:#}");
        let (_, incidents) = installed.text(lab, &["incidents", "--json"])?;
        let about = |path: &str| {
            incidents.contains("damaged-file")
                && incidents.contains(&installed.file(path).display().to_string())
        };
        ensure!(about(APP) && about(KERNEL), "{incidents}");
        up.stop(Signal::TERM)?;
        ensure!(installed.verify(false)?.0 == Some(0));
        Ok(())
    });
}

#[test]
fn file_without_good_copy_does_not_run() {
    in_a_lab_without_capture(|lab| {
        let installed = Installed::new(lab)?;
        installed.flip(MONITOR)?;
        installed.flip(&format!("{COPY}/{MONITOR}"))?;
        let (code, text) = installed.verify(true)?;
        ensure!(code == Some(3) && text.contains("its copy in"), "{code:?}: {text}");
        let (code, text) = installed.refused(lab, &[])?;
        ensure!(code == Some(1) && text.contains(MONITOR), "{code:?}: {text}");
        ensure!(text.contains("its copy in") && text.contains("install Rosemary again"), "{text}");
        // The same bit again.
        installed.flip(MONITOR)?;
        installed.flip(&format!("{COPY}/{MONITOR}"))?;
        ensure!(installed.verify(false)?.0 == Some(0), "flipped twice");
        installed.flip(APP)?;
        installed.flip(&format!("{COPY}/{APP}"))?;
        let (code, text) = installed.refused(lab, &["--end-with-apps", "--app", "forwarding"])?;
        ensure!(code != Some(0) && text.contains("forwarding.so was changed"), "{code:?}: {text}");
        installed.flip(APP)?;
        installed.flip(&format!("{COPY}/{APP}"))?;
        // An older release is a fault too.
        installed.release("7")?;
        installed.start(lab, "require")?.stop(Signal::TERM)?;
        installed.release("6")?;
        let (code, text) = installed.refused(lab, &[])?;
        ensure!(code == Some(1) && text.contains("--allow-downgrade"), "{code:?}: {text}");
        let (code, text) = installed.refused(lab, &["--allow-unsigned"])?;
        ensure!(code == Some(78) && text.contains("remove one of the two"), "{code:?}: {text}");
        fs::write(installed.file("lib/rosemary/MANIFEST"), "no manifest")?;
        fs::write(installed.file(COPY).join("lib/rosemary/MANIFEST"), "no manifest")?;
        let (code, text) = installed.refused(lab, &[])?;
        ensure!(code == Some(1) && text.contains("its signature does not fit"), "{code:?}: {text}");
        Ok(())
    });
}

/// The aim is that a check delays the start of the installed release by at most 60 ms, with files in the memory of the system.
#[test]
#[ignore = "starts Rosemary 20 times for a measurement; run by hand, on a machine without other load"]
fn start_with_checks_is_measured() {
    in_a_lab_without_capture(|lab| {
        let installed = Installed::new(lab)?;
        let mut times = [("off", Vec::new()), ("require", Vec::new())];
        for _ in 0..10 {
            for (policy, times) in &mut times {
                write_policy(policy)?;
                let started = Instant::now();
                let up = Rosemary::start_by(
                    lab,
                    &installed.file("bin/rosemary"),
                    &["up", "--no-northbound"],
                )?;
                times.push(started.elapsed());
                up.stop(Signal::TERM)?;
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let [off, require] = times.each_mut().map(|(_, times)| median(times));
        println!("start: {off:?} without checks, {require:?} with checks");
        ensure!(require < off + Duration::from_millis(600), "ten times the aim");
        Ok(())
    });
}
