//! A failed start or command names the reason and a remedy, exits with the right code, and leaves
//! nothing behind.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::Context as _;
use cli::lab::processes::{self, Process};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::traces::Traces;
use rosemary_tests::{in_a_lab, rosemary_binary};

/// An unprivileged user.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn second_instance_names_the_first() {
    in_a_lab(|lab| {
        let mut first = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let before = first.wait_for("it answers", SOON, |status| Some(status.clone()))?;
        let traces = Traces::look();
        let mut second = lab.command(rosemary_binary());
        let error = refused(second.arg("up"))?;
        assert!(error.contains(&first.pid().to_string()), "it names the other's pid: {error}");
        assert_eq!(traces.new_since(), [""; 0]);
        let after = first.wait_for("it answers", SOON, |status| Some(status.clone()))?;
        assert_eq!(after.pids(), before.pids());
        Ok(())
    });
}

#[test]
fn occupied_port_is_named() {
    in_a_lab(|lab| {
        let occupied = TcpListener::bind("127.0.0.1:6653")?;
        let traces = Traces::look();
        let error = refused(lab.command(rosemary_binary()).arg("up"))?;
        for word in ["6653", "--listen"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert_eq!(traces.new_since(), [""; 0]);

        let listens_on = |args: &[&str]| -> anyhow::Result<(Vec<String>, String)> {
            let mut rosemary = Rosemary::start(lab, &rosemary_binary(), args)?;
            let status = rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?;
            Ok((status.programs.kernel.listen, rosemary.log()))
        };
        assert_eq!(listens_on(&["--listen", "127.0.0.1:6633"])?.0, ["127.0.0.1:6633"]);
        drop(occupied);
        let (listen, log) = listens_on(&[])?;
        assert_eq!(listen, ["127.0.0.1:6653", "127.0.0.1:6633"]);
        assert!(!log.contains("former port"), "{log}");
        let _former = TcpListener::bind("127.0.0.1:6633")?;
        let (listen, log) = listens_on(&[])?;
        assert_eq!(listen, ["127.0.0.1:6653"]);
        assert!(log.contains("former port") && log.contains("127.0.0.1:6633"), "{log}");
        Ok(())
    });
}

#[test]
fn configuration_mistake_is_reported_with_its_line() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let up = |text: &str| -> anyhow::Result<String> {
            fs::write("/etc/rosemary/rosemary.toml", text)?;
            refused(lab.command(rosemary_binary()).arg("up"))
        };
        let app = "[[app]]\nname = \"learning-switch\"\n";
        for (more, said) in [
            ("stge = \"guard\"", "unknown key \"stge\" in [[app]]; did you mean `stage`?"),
            ("stage = \"gard\"", "stage is \"gard\"; expected \"guard\", \"control\" or"),
            (
                "host = \"moon\"",
                "host is \"moon\"; expected \"user\", \"kernel\", \"python\", \"ryu\" or \"wasm\"",
            ),
        ] {
            let error = up(&format!("{app}{more}\n"))?;
            assert!(error.contains("/etc/rosemary/rosemary.toml:3:"), "{error}");
            assert!(error.contains(said), "{error}");
        }
        let missing = up("[[app]]\nname = \"nowhere\"\n")?;
        for word in ["examples/libnowhere.so", "/usr/lib/rosemary/apps/nowhere.so", "app install"] {
            assert!(missing.contains(word), "{missing}");
        }
        assert_eq!(traces.new_since(), [""; 0]);
        let state = fs::read_dir("/var/lib/rosemary")?.map(|entry| Ok(entry?.file_name()));
        let state = state.collect::<anyhow::Result<Vec<_>>>()?;
        assert_eq!(state, ["state.lock"], "no number was given");
        Ok(())
    });
}

#[test]
fn damaged_app_numbers_are_reported() {
    in_a_lab(|lab| {
        fs::write("/var/lib/rosemary/apps.json", "")?;
        let traces = Traces::look();
        let error = refused(lab.command(rosemary_binary()).arg("up"))?;
        for words in ["/var/lib/rosemary/apps.json", "from a backup", "ovs-ofctl del-flows"] {
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(traces.new_since(), [""; 0]);
        Ok(())
    });
}

#[test]
fn status_without_instance_names_the_command() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let error = refused(lab.command(rosemary_binary()).args(["status", "--json"]))?;
        assert!(error.contains("rosemary up"), "{error}");
        assert_eq!(traces.new_since(), [""; 0]);
        Ok(())
    });
}

#[test]
fn demo_without_open_vswitch_names_the_package() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let programs = all_but_open_vswitch(lab)?;
        let error = refused(lab.command(rosemary_binary()).arg("demo").env("PATH", &programs))?;
        for word in ["ovs-vswitchd", "apt-get install", "openvswitch-switch"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert_eq!(traces.new_since(), [""; 0]);
        Ok(())
    });
}

#[test]
fn demo_without_user_namespaces_names_the_reason() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        // In a user namespace that allows no nested ones; its root is also unprivileged.
        let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" demo";
        let mut command = lab.command("setpriv");
        command.args(NOBODY).args(["unshare", "--user", "--keep-caps", "sh", "-c", forbid]);
        let error = refused(command.arg(programs(lab)?.join("rosemary")))?;
        assert!(error.contains("(user.max_user_namespaces is 0); type: sudo /"), "{error}");
        assert!(error.contains("/rosemary demo"), "{error}");
        assert_eq!(traces.new_since(), [""; 0]);
        Ok(())
    });
}

#[test]
fn up_without_runtime_directory_names_the_variable() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let error = refused(as_nobody(lab)?.arg("up").env_remove("XDG_RUNTIME_DIR"))?;
        for word in ["XDG_RUNTIME_DIR", "--runtime-dir"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert_eq!(traces.new_since(), [""; 0]);
        Ok(())
    });
}

/// Runs a command that must fail; returns its error, which must be short and addressed to the
/// operator.
fn refused(command: &mut Command) -> anyhow::Result<String> {
    let here = fs::read_link("/proc/thread-self/ns/net")?;
    // Other tests run in parallel, in their own networks.
    let ours = || -> Vec<Process> {
        let mut ours = processes::all();
        ours.retain(|process| {
            process.name.starts_with("rosemary") && process.namespace("net").as_ref() == Some(&here)
        });
        ours
    };
    let before = ours();
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output()?;
    let (stdout, stderr) = (String::from_utf8(stdout)?, String::from_utf8(stderr)?);
    println!("{}", stderr.trim_end());
    assert!(matches!(status.code(), Some(1 | 78)), "{status}: {stderr}");
    assert_eq!(stdout, "", "an error is not data");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(stderr.lines().count() <= 6, "too long to be read: {stderr}");
    assert_eq!(ours(), before, "a process is left");
    Ok(stderr)
}

/// Returns `rosemary` as an unprivileged user, from a path that this user can access.
fn as_nobody(lab: &Lab) -> anyhow::Result<Command> {
    let programs = programs(lab)?;
    let mut command = lab.command("setpriv");
    // It does not die with this thread, because it changes its user.
    command.args(NOBODY).args(["timeout", "--kill-after=1", "20"]).arg(programs.join("rosemary"));
    command.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME");
    Ok(command)
}

/// Copies our programs to a path accessible to all users.
fn programs(lab: &Lab) -> anyhow::Result<PathBuf> {
    let binary = rosemary_binary();
    let programs = lab.files().join("programs");
    fs::create_dir(&programs)?;
    rustix::mount::mount_bind(binary.parent().unwrap_or(Path::new("/")), &programs)?;
    Ok(programs)
}

/// Creates a directory with every program of a lab except those of Open vSwitch.
fn all_but_open_vswitch(lab: &Lab) -> anyhow::Result<PathBuf> {
    let programs = lab.files().join("all-but-open-vswitch");
    fs::create_dir(&programs)?;
    let path = env::var_os("PATH").unwrap_or_default();
    for program in ["ip", "ethtool", "ping", "tcpdump"] {
        let mut places = env::split_paths(&path).map(|dir| dir.join(program));
        let place = places.find(|file| file.is_file()).context("the lab has found it")?;
        std::os::unix::fs::symlink(place, programs.join(program))?;
    }
    Ok(programs)
}
