//! `make install`: the installed programs find each other, and the apps that they create build with the installed SDK.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
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
    // A package of a test needs no manifest, whose recovery copy would double its size.
    make.envs((!destdir.is_empty()).then_some(("RELEASE", "none")));
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
            "include/rosemary/rosemary_wanted.h",
            "lib/rosemary/librosemary_wanted.a",
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

/// Installs the environment for apps in Python alone, with this Faucet. Returns whether that succeeded, and what was written about
/// mistakes.
fn install_python(to: &Installed, faucet: &Path) -> anyhow::Result<(bool, String)> {
    let mut install = Command::new(Path::new(ROOT).join("etc/install-python.sh"));
    install.current_dir(ROOT).args(["target/python", "/opt/rosemary"]).arg(&to.0).arg(faucet);
    let output = install.output()?;
    Ok((output.status.success(), String::from_utf8(output.stderr)?))
}

#[test]
fn installed_python_does_not_name_the_root_of_a_package() {
    let check = || -> anyhow::Result<()> {
        // A relative path, with letters that mean something to a shell, to sed and to make.
        let relative = "target/tmp/installed & a |package";
        let installed = Installed(Path::new(ROOT).join(relative));
        let _ = fs::remove_dir_all(&installed.0);
        make("/opt/rosemary", relative)?;
        let root = fs::canonicalize(&installed.0)?;
        let python = installed.file("lib/rosemary/python");
        for file in ["rosemary-python.json", "pyvenv.cfg"] {
            let text = fs::read_to_string(python.join(file))?;
            assert!(!text.contains("a |package"), "{file}: {text}");
        }
        let mut grep = Command::new("grep");
        grep.args(["-rlF", "-e"]).arg(fs::canonicalize(ROOT)?).arg("-e").arg(&root).arg(&python);
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
        let install = |prefix: &Path| -> anyhow::Result<_> {
            let mut install = Command::new(Path::new(ROOT).join("etc/install.sh"));
            let binary = rosemary_binary();
            install.current_dir(ROOT).arg(binary.parent().unwrap_or(Path::new("/")));
            let output = install.arg(prefix).args(["", "/nowhere"]).output()?;
            Ok((output.status.success(), String::from_utf8(output.stderr)?))
        };
        let (succeeded, said) = install(&empty.0)?;
        ensure!(succeeded && said.contains("type: make python"), "{said}");
        ensure!(!empty.0.join("lib/rosemary/python").exists());
        let (succeeded, said) = install(&empty.0.join("a b"))?;
        ensure!(!succeeded && said.contains("PREFIX must begin with / and have letters"), "{said}");
        Ok(())
    };
    check().unwrap();
}

#[test]
fn installation_leaves_added_packages_alone() {
    let check = || -> anyhow::Result<()> {
        let installed = Installed::empty("installed-again");
        let nothing = Path::new("/nowhere");
        let (succeeded, said) = install_python(&installed, nothing)?;
        ensure!(succeeded && said.contains("`rosemary faucet` cannot run"), "{said}");
        let python = installed.file("lib/rosemary/python");
        let packages = fs::read_dir(python.join("lib"))?.flatten().map(|it| it.path());
        let packages = packages.map(|it| it.join("site-packages")).find(|it| it.is_dir());
        let packages = packages.unwrap_or_default();
        ensure!(packages.join("rosemary/_boot.py").is_file(), "{}", packages.display());
        // A package of the operator, one that is newer than ours, and a file of an older installation.
        fs::create_dir(packages.join("added"))?;
        fs::write(packages.join("added/__init__.py"), "")?;
        fs::write(python.join("bin/added"), "")?;
        fs::write(packages.join("old.py"), "")?;
        let list = python.join("rosemary-files");
        let files = fs::read_to_string(&list)?;
        ensure!(files.lines().any(|it| it.ends_with("site-packages/six.py")), "{files}");
        let old = packages.join("old.py").strip_prefix(&python)?.display().to_string();
        let not_ours = |line: &&str| !line.ends_with("site-packages/six.py");
        let lines: Vec<&str> = files.lines().filter(not_ours).chain([&*old]).collect();
        fs::write(&list, lines.join("\n") + "\n")?;
        let (succeeded, said) = install_python(&installed, nothing)?;
        ensure!(succeeded && said.contains("are replaced: six.py\n"), "{said}");
        ensure!(packages.join("added/__init__.py").is_file() && python.join("bin/added").is_file());
        ensure!(!packages.join("old.py").exists(), "it belonged to the earlier installation");
        ensure!(fs::read_to_string(&list)? == files, "the list is not the same");
        run(
            Command::new(python.join("bin/python3")).args(["-c", "import added, os_ken, rosemary"])
        )?;
        // Something else in its place stays as it is.
        fs::remove_file(&list)?;
        let (succeeded, said) = install_python(&installed, nothing)?;
        ensure!(!succeeded && said.contains("move it away"), "{said}");
        ensure!(packages.join("added/__init__.py").is_file());
        Ok(())
    };
    check().unwrap();
}

#[test]
fn installation_with_faucet_finds_it() {
    let check = || -> anyhow::Result<()> {
        let installed = Installed::empty("installed-faucet");
        let prefix = installed.0.display().to_string();
        make(&prefix, "")?;
        let faucet = installed.0.join("made");
        fs::create_dir_all(faucet.join("faucet"))?;
        fs::write(faucet.join("faucet/faucet.py"), "")?;
        fs::write(faucet.join("python.txt"), "another\n")?;
        let config = installed.0.join("faucet.yaml");
        fs::write(&config, "")?;
        let install = || -> anyhow::Result<(bool, String)> {
            let mut install = Command::new(Path::new(ROOT).join("etc/install-python.sh"));
            install.current_dir(ROOT).args(["target/python", &prefix, ""]).arg(&faucet);
            let output = install.output()?;
            Ok((output.status.success(), String::from_utf8(output.stderr)?))
        };
        let (succeeded, said) = install()?;
        ensure!(!succeeded && said.contains("for another Python"), "{said}");
        let python = Path::new(ROOT).join("target/python/bin/python3");
        let version =
            "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())";
        let version = run(Command::new(python).args(["-c", version]))?;
        fs::write(faucet.join("python.txt"), version)?;
        let (succeeded, said) = install()?;
        ensure!(succeeded, "{said}");
        let mut command = Command::new(installed.0.join("bin/rosemary"));
        let config = config.display().to_string();
        let printed = run(command.args(["faucet", "--print-config", "--config", &config]))?;
        let path = format!("python-path = [\"{prefix}/lib/rosemary/faucet\"]");
        ensure!(printed.contains(&path), "{printed}");
        // Without it, the program says what to type.
        fs::remove_dir_all(installed.0.join("lib/rosemary/faucet"))?;
        let mut command = Command::new(installed.0.join("bin/rosemary"));
        let output = command.args(["faucet", "--config", &config]).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(said.contains("make faucet, and make install if Rosemary is installed"), "{said}");
        Ok(())
    };
    check().unwrap();
}

/// Stands for Python and pip: states the version in `FAKE_VERSION`, and appends a line to `DIR.installed` for each installation.
const FAKE_PYTHON: &str = r#"#!/bin/sh
case "$*" in
*cache_tag*) echo "$FAKE_VERSION" ;;
*pip*)
	while [ "$1" != --target ]; do shift; done
	mkdir -p "$2/faucet"
	echo once >>"$2.installed"
	;;
esac
"#;

#[test]
fn faucet_is_installed_again_when_its_cache_is_stale() {
    let check = || -> anyhow::Result<()> {
        let place = Installed::empty("faucet-cache");
        fs::create_dir_all(&place.0)?;
        let python = place.0.join("python3");
        fs::write(&python, FAKE_PYTHON)?;
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755))?;
        let faucet = place.0.join("faucet");
        let make = |version: &str| -> anyhow::Result<usize> {
            let mut make = Command::new(Path::new(ROOT).join("etc/make-faucet.sh"));
            make.current_dir(ROOT).args([&faucet, &python]).env("FAKE_VERSION", version);
            run(&mut make)?;
            Ok(fs::read_to_string(faucet.with_extension("installed"))?.lines().count())
        };
        ensure!(make("cpython-311 linux-x86_64")? == 1);
        ensure!(make("cpython-311 linux-x86_64")? == 1, "nothing has changed");
        ensure!(make("cpython-312 linux-x86_64")? == 2, "another Python");
        ensure!(make("cpython-312 linux-aarch64")? == 3, "another machine");
        fs::write(faucet.join("requirements.txt"), "faucet==1.10.11\n")?;
        ensure!(make("cpython-312 linux-aarch64")? == 4, "other packages");
        ensure!(make("cpython-312 linux-aarch64")? == 4);
        Ok(())
    };
    check().unwrap();
}
