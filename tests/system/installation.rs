//! `make install`: the installed programs find each other, and the apps that they create build with the installed SDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use rosemary_tests::{LIMIT, in_a_lab_for, rosemary_binary};

/// The root of the source tree.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs a command, which must succeed; returns what it printed.
fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Removes the installation, also if the test fails.
struct Installed(PathBuf);

impl Installed {
    /// Installs the programs that belong to this test.
    fn new(name: &str) -> anyhow::Result<Self> {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&to);
        let installed = Self(to);
        let binary = rosemary_binary();
        let build = binary.parent().unwrap_or(Path::new("/")).display();
        let mut make = Command::new("make");
        make.arg("-C").arg(ROOT).args([
            "install",
            "PREFIX=/opt/rosemary",
            &format!("BUILD={build}"),
        ]);
        run(make.arg(format!("DESTDIR={}", installed.0.display())))?;
        Ok(installed)
    }

    fn file(&self, path: &str) -> PathBuf {
        self.0.join("opt/rosemary").join(path)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The apps that ship with Rosemary, by the names of their source files.
fn shipped_apps() -> anyhow::Result<Vec<String>> {
    let manifest = fs::read_to_string(Path::new(ROOT).join("crates/apps/Cargo.toml"))?;
    let file =
        |line: &str| Some(line.strip_prefix("path = \"src/")?.strip_suffix(".rs\"")?.to_owned());
    let apps: Vec<String> = manifest.lines().filter_map(file).filter(|it| it != "lib").collect();
    ensure!(apps.len() >= 3, "{apps:?}");
    Ok(apps)
}

#[test]
fn installed_programs_and_apps_work() {
    in_a_lab_for(3 * LIMIT, |lab| {
        let installed = Installed::new("installed-programs")?;
        for app in shipped_apps()? {
            let file = format!("lib/rosemary/apps/{}.so", app.replace('_', "-"));
            ensure!(installed.file(&file).is_file(), "{file} is missing");
        }
        for file in [
            "include/rosemary/rosemary_packet.h",
            "share/man/man1/rosemary.1",
            "share/man/man5/rosemary.toml.5",
            "share/bash-completion/completions/rosemary",
        ] {
            ensure!(installed.file(file).is_file(), "{file} is missing");
        }
        let unit = fs::read_to_string(installed.file("lib/systemd/system/rosemary.service"))?;
        assert!(unit.contains("\nExecStart=/opt/rosemary/bin/rosemary up\n"), "{unit}");
        for line in
            ["ExecReload=/opt/rosemary/bin/rosemary reload", "Type=notify", "WatchdogSec=30"]
        {
            assert!(unit.lines().any(|it| it == line), "{line} is missing in {unit}");
        }
        // It starts all programs and the learning switch, and pings through it.
        let demo = run(lab.command(installed.file("bin/rosemary")).arg("demo"))?;
        assert!(!demo.is_empty());
        Ok(())
    });
}

#[test]
fn installed_sdk_builds_a_new_app() {
    let build = || -> anyhow::Result<()> {
        let installed = Installed::new("installed-sdk")?;
        let app = installed.0.join("my-app");
        let rosemary = installed.file("bin/rosemary");
        run(Command::new(rosemary).args(["app", "new", "my-app", "--dir"]).arg(&app))?;
        let manifest = fs::read_to_string(app.join("Cargo.toml"))?;
        let sdk = installed.file("share/rosemary/sdk/crates/sdk");
        ensure!(manifest.contains(&format!("{:?}", sdk.display().to_string())), "{manifest}");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../apps");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--offline"]).current_dir(&app).env("CARGO_TARGET_DIR", &target);
        run(&mut cargo)?;
        ensure!(target.join("debug/libmy_app.so").is_file(), "cargo built no object");
        Ok(())
    };
    build().unwrap();
}
