//! `make install`: the installed programs find each other, and the apps that they create build with the installed SDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use cli::lab::{Of, Rosemary};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{LIMIT, in_a_lab_for, rosemary_binary};

/// The root of the source tree.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs a command, which must succeed; returns what it printed.
fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs `make install` with the programs that belong to this test. Returns what it wrote about mistakes.
fn make(prefix: &str, destdir: &str) -> anyhow::Result<String> {
    let binary = rosemary_binary();
    let build = binary.parent().unwrap_or(Path::new("/")).display();
    let mut make = Command::new("make");
    let arguments =
        [format!("PREFIX={prefix}"), format!("BUILD={build}"), format!("DESTDIR={destdir}")];
    let output = make.arg("-C").arg(ROOT).arg("install").args(arguments).output()?;
    let errors = String::from_utf8(output.stderr)?;
    ensure!(output.status.success(), "{make:?}: {errors}");
    Ok(errors)
}

/// Removes the installation, also if the test fails.
struct Installed(PathBuf);

impl Installed {
    /// Installs the programs that belong to this test.
    fn new(name: &str) -> anyhow::Result<Self> {
        let installed = Self::empty(name);
        make("/opt/rosemary", &installed.0.display().to_string())?;
        Ok(installed)
    }

    /// Nothing is installed yet.
    fn empty(name: &str) -> Self {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&to);
        Self(to)
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

/// An app in Python that floods.
const HUB: &str = "import rosemary\n\
                   class Hub(rosemary.App):\n    \
                   def on_packet_in(self, event, network):\n        \
                   network.packet_out_for(event, [rosemary.Action.output(rosemary.FLOOD)])\n";

/// An app of Ryu that does nothing.
const IDLE: &str = "from ryu.base import app_manager\n\
                    class Idle(app_manager.RyuApp):\n    \
                    def start(self):\n        \
                    super().start()\n        \
                    self.logger.info('from %s', app_manager.__file__)\n";

#[test]
fn installation_runs_apps_in_python_and_of_ryu() {
    in_a_lab_for(3 * LIMIT, |lab| {
        let installed = Installed::empty("installed-python");
        let prefix = installed.0.display().to_string();
        make(&prefix, "")?;
        let rosemary = installed.0.join("bin/rosemary");
        let (hub, idle) = ("/etc/rosemary/hub.py", "/etc/rosemary/idle.py");
        fs::write(hub, HUB)?;
        fs::write(idle, IDLE)?;
        let up = Rosemary::start_by(lab, &rosemary, &["up", "--app", hub])?;
        let net = Net::of(lab, Of::V1_3, up)?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        let log = net.rosemary.log();
        assert!(log.contains("confined app=\"hub\" program=\"zone\""), "{log}");
        net.rosemary.stop(rustix::process::Signal::TERM)?;
        run(lab.command(&rosemary).args(["ryu", "check", idle]))?;
        let configs = || -> anyhow::Result<Vec<_>> {
            let files = fs::read_dir(lab.files())?.flatten().map(|it| it.file_name());
            Ok(files.filter(|it| it.to_string_lossy().starts_with("rosemary-ryu-")).collect())
        };
        let mut up = Rosemary::start_by(lab, &rosemary, &["ryu", idle])?;
        let line =
            up.wait_for_log(&["idle", &format!("from {prefix}/lib/rosemary/python/")], SOON)?;
        println!("{line}");
        let name = format!("rosemary-ryu-{}", up.pid());
        assert!(configs()?.iter().any(|it| *it == *name), "{:?}", configs()?);
        // Its temporary configuration goes with it.
        up.stop(rustix::process::Signal::TERM)?;
        assert!(!configs()?.iter().any(|it| *it == *name), "{:?}", configs()?);
        Ok(())
    });
}

#[test]
fn installed_python_does_not_name_the_root_of_a_package() {
    let check = || -> anyhow::Result<()> {
        let installed = Installed::new("installed-package")?;
        let python = installed.file("lib/rosemary/python");
        for file in ["rosemary-python.json", "pyvenv.cfg"] {
            let text = fs::read_to_string(python.join(file))?;
            assert!(!text.contains(&installed.0.display().to_string()), "{file}: {text}");
        }
        let mut grep = Command::new("grep");
        grep.args(["-rlF", "-e"]).arg(ROOT).arg("-e").arg(&installed.0).arg(&python);
        // The debug information of the native module names its source files.
        let output = grep.arg("--exclude=*.so").output()?;
        let named = String::from_utf8(output.stdout)?;
        ensure!(output.status.code() == Some(1), "these name the source tree or DESTDIR: {named}");
        let note = fs::read_to_string(python.join("rosemary-python.json"))?;
        let boot = "\"boot\": \"/opt/rosemary/lib/rosemary/python/lib/python3.";
        assert!(note.contains(boot), "{note}");
        assert!(note.contains("\"ryu\": true"), "{note}");
        // Without the environment, the installation says what is missing.
        let empty = Installed::empty("installed-without-python");
        let mut install = Command::new(Path::new(ROOT).join("etc/install.sh"));
        let binary = rosemary_binary();
        install.current_dir(ROOT).arg(binary.parent().unwrap_or(Path::new("/")));
        let output = install.arg(&empty.0).args(["", "/nowhere"]).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.success() && said.contains("type: make python"), "{said}");
        ensure!(!empty.0.join("lib/rosemary/python").exists());
        Ok(())
    };
    check().unwrap();
}
