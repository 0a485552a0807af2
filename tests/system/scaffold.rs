//! `rosemary app new`: the created app builds, loads and connects hosts without changes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use cli::lab::{Lab, Of};
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::{LIMIT, in_a_lab, in_a_lab_for, rosemary_binary};

#[test]
fn new_switch_in_rust_builds_and_installs_flows() {
    // It compiles the SDK twice.
    in_a_lab_for(3 * LIMIT, |lab| {
        let mut cargo = as_builder(lab, Path::new(env!("CARGO")));
        let net = new_app_connects_hosts(lab, &[], cargo.args(["build", "--offline"]))?;
        assert_ne!(net.flows_to(&net.h2)?, [""; 0], "it is a learning switch");
        drop(net);
        // The same, as a package.
        let mut build = as_builder(lab, &rosemary_binary());
        let dir = lab.files().join("my-app");
        build.args(["app", "build", "--", "--offline"]).current_dir(&dir);
        let output = build.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout)?, "./my-app-0.1.0.rosemary\n");
        let list =
            lab.run("tar", &["-tf", &dir.join("my-app-0.1.0.rosemary").display().to_string()])?;
        assert_eq!(list, "SHA256SUMS\napp.toml\napp.so\n");
        Ok(())
    });
}

#[test]
fn new_hub_in_c_builds_and_floods() {
    in_a_lab(|lab| {
        let hub = ["--c", "--template", "hub"];
        let net = new_app_connects_hosts(lab, &hub, &mut lab.command("make"))?;
        assert_eq!(net.flows_to(&net.h2)?, [""; 0], "it floods");
        Ok(())
    });
}

fn new_app_connects_hosts<'l>(
    lab: &'l Lab,
    options: &[&str],
    build: &mut Command,
) -> anyhow::Result<Net<'l>> {
    let dir = lab.files().join("my-app");
    let path = dir.display().to_string();
    let rosemary = rosemary_binary().display().to_string();
    lab.run(&rosemary, &[&["app", "new", "my-app", "--dir", &path], options].concat())?;
    lab.run("chown", &["-R", &format!("{0}:{0}", builder().unwrap_or("0".into())), &path])?;
    let output = build.current_dir(&dir).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let config = dir.join("rosemary.toml").display().to_string();
    let mut net = Net::start_with(lab, Of::V1_3, &["--config", &config])?;
    assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
    let apps = net.status()?.programs.apps;
    let [app] = &apps[..] else { anyhow::bail!("it runs alone: {apps:?}") };
    assert_eq!((app.name.as_str(), app.version.as_deref()), ("my-app", Some("0.1.0")));
    Ok(net)
}

/// Returns a command that compiles as the user who built this test, if sudo runs it.
fn as_builder(lab: &Lab, program: &Path) -> Command {
    let cargo = PathBuf::from(env!("CARGO"));
    let bin = cargo.parent().unwrap_or(Path::new("/")).display();
    let home = option_env!("CARGO_HOME").map_or(Path::new(env!("HOME")).join(".cargo"), Into::into);
    let mut command = match builder() {
        None => lab.command(program),
        Some(user) => {
            let mut command = lab.command("setpriv");
            let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
            command.args([&user, &group, "--clear-groups"]).arg(program);
            command
        }
    };
    let path = format!("{bin}:{}", env::var("PATH").unwrap_or_default());
    command.env("CARGO_HOME", home).env("PATH", path);
    command.env("RUSTC", cargo.with_file_name("rustc")).env_remove("CARGO_TARGET_DIR");
    command
}

/// Returns the id of the user who called sudo.
fn builder() -> Option<String> {
    env::var("SUDO_UID").ok().filter(|user| user != "0")
}
