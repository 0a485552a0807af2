//! Apps in Python, each in a zone of its own.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use cli::lab::{Lab, Of};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill};

/// The name of the apps, which their files give them.
const APP: &str = "app";

/// Returns the path of an example of the SDK.
fn example(name: &str) -> String {
    format!("{}/../python/examples/{name}.py", env!("CARGO_MANIFEST_DIR"))
}

/// Writes an app below the lab's own `/etc` and returns its path.
fn written(source: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from("/etc/rosemary/app.py");
    fs::write(&path, source)?;
    Ok(path)
}

#[test]
fn learning_switch_in_python_over_openflow_1_0() {
    in_a_lab(|lab| learning_switch(lab, Of::V1_0));
}

#[test]
fn learning_switch_in_python_over_openflow_1_3() {
    in_a_lab(|lab| learning_switch(lab, Of::V1_3));
}

fn learning_switch(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut net = Net::start_with(lab, of, &["--app", &example("learning_switch")])?;
    let log = net.rosemary.log();
    assert!(log.contains("confined app=\"learning-switch\" program=\"zone\""), "{log}");
    let first = net.h1.ping(&net.h2, 5, INTERVAL)?;
    assert_eq!(first.lost(), 0, "{first:?}");
    for host in [&net.h1, &net.h2] {
        let flows = net.flows_to(host)?;
        assert_eq!(flows.len(), 1, "to {}: {flows:#?}", host.name());
    }
    // Restarted, it receives the snapshot, and goes on.
    let status = net.status()?;
    let pid = status.app("learning-switch").and_then(|app| app.pid).context("it runs")?;
    kill(pid)?;
    net.rosemary.wait_for("the app is back", SOON, |status| {
        status.app("learning-switch")?.pid.filter(|new| *new != pid)
    })?;
    let other = net.h1.ping(&net.h3, 5, INTERVAL)?;
    assert!(other.lost() <= 1, "{other:?}");
    let after = net.switch_status()?;
    assert_eq!(after.refused, 0, "{after:?}");
    Ok(())
}

#[test]
fn traceback_of_an_app_is_in_its_log() {
    in_a_lab(|lab| {
        let source = "import rosemary\n\
                      class Broken(rosemary.App):\n    \
                      def on_switch_up(self, event, network):\n        \
                      print('a printed line')\n        \
                      raise KeyError('nothing here')\n";
        let app = written(source)?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--app", &app.to_string_lossy()])?;
        let path = format!("File \\\"{}\\\", line 5, in on_switch_up", app.display());
        net.rosemary.wait_for_log(&[APP, &path], SOON)?;
        net.rosemary.wait_for_log(&[APP, "raise KeyError("], SOON)?;
        net.rosemary.wait_for_log(&["a printed line"], SOON)?;
        net.rosemary.wait_for_log(&["the app raised KeyError: 'nothing here'"], SOON)?;
        Ok(())
    });
}
