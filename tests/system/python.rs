//! Apps in Python, each in a zone of its own.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::developer::{self, Developer};
use rosemary_tests::http::{APP_ROUTES, request_at};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, rosemary_binary};

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

#[test]
fn app_in_python_publishes_routes() {
    in_a_lab(|lab| {
        let source = "import rosemary\n\
                      class Web(rosemary.App):\n    \
                      waiting = None\n    \
                      def on_http_request(self, request, network):\n        \
                      if request.path == '/later':\n            \
                      self.waiting = request\n            \
                      network.wake_at(network.now() + 0.1)\n            \
                      return None\n        \
                      if request.path == '/bad':\n            \
                      return rosemary.Response(headers=[('x-a', 'a\\r\\nset-cookie: b')])\n        \
                      seen = [request.method, request.query, request.header('Cookie'), request.body.decode()]\n        \
                      return rosemary.Response.json(seen, 201)\n    \
                      def on_wake(self, network):\n        \
                      network.respond(self.waiting, rosemary.Response(body='later'))\n";
        let app = written(source)?;
        let config = format!(
            "[[app]]\nname = \"app\"\nobject = \"{}\"\nhost = \"python\"\nstage = \"observe\"\n\
             capabilities = [\"packet-in\", \"http.serve\"]\n",
            app.display()
        );
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["app was connected to the kernel", APP], SOON)?;
        let cookie = [("Cookie", "a=b")];
        let deadline = std::time::Instant::now() + SOON;
        let answer = loop {
            let target = ("POST", "/apps/app/x?q=1");
            match request_at(APP_ROUTES, target, &cookie, b"body") {
                Ok(answer) if answer.status == 201 => break answer,
                result if std::time::Instant::now() > deadline => anyhow::bail!("{result:?}"),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let expected = serde_json::json!(["POST", "q=1", null, "body"]);
        assert_eq!(answer.json(), expected, "{answer:?}");
        // No client can end the app.
        let invalid = request_at(APP_ROUTES, ("POST", "/apps/app/x"), &[], b"\xff")?;
        assert_eq!(invalid.status, 500, "{invalid:?}");
        let injected = request_at(APP_ROUTES, ("GET", "/apps/app/bad"), &[], b"")?;
        assert_eq!(injected.status, 500, "{injected:?}");
        rosemary
            .wait_for_log(&[APP, "could not answer an HTTP request", "UnicodeDecodeError"], SOON)?;
        let later = request_at(APP_ROUTES, ("GET", "/apps/app/later"), &[], b"")?;
        assert_eq!((later.status, &*later.body), (200, &b"later"[..]));
        Ok(())
    });
}

/// The attempts of an app in Python, and their results.
fn attempts(lab: &Lab, args: &[&str]) -> anyhow::Result<Vec<(String, String)>> {
    let dir = "/etc/rosemary/lib";
    fs::create_dir_all(dir)?;
    fs::write(format!("{dir}/evil.pth"), "import sys; sys.pth_ran = True\n")?;
    fs::write(format!("{dir}/sitecustomize.py"), "import sys; sys.pth_ran = True\n")?;
    let object = format!("{}/../python/hostile/attempts.py", env!("CARGO_MANIFEST_DIR"));
    let config = format!(
        "[[app]]\nname = \"attempts\"\nobject = \"{object}\"\npython-path = [\"{dir}\"]\n\
         limits = {{ log-bytes-per-second = \"1 MiB\" }}\n"
    );
    fs::write("/etc/rosemary/rosemary.toml", config)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), args)?;
    rosemary.wait_for_log(&["attempts are over"], Duration::from_secs(60))?;
    let log = rosemary.log();
    let found = log.lines().filter_map(|line| {
        let (name, result) = line.split_once("attempt: ")?.1.split_once(": ")?;
        Some((name.to_owned(), result.split(" app=").next()?.to_owned()))
    });
    Ok(found.collect())
}

#[test]
fn attempts_of_an_app_in_python_are_refused() {
    in_a_lab(|lab| {
        let found = attempts(lab, &[])?;
        println!("{found:#?}");
        assert!(found.len() >= 26, "{}", found.len());
        let got: Vec<_> = found.iter().filter(|(_, result)| result == "GOT").collect();
        assert!(got.is_empty(), "{got:?}");
        Ok(())
    });
}

/// Without a sandbox most attempts succeed: otherwise they would prove nothing.
#[test]
fn attempts_of_an_unconfined_app_in_python_succeed() {
    in_a_lab(|lab| {
        let found = attempts(lab, &["--unconfined"])?;
        let refused: Vec<_> = found.iter().filter(|(_, result)| result != "GOT").collect();
        println!("{refused:#?}");
        // No `.pth` file and no `sitecustomize` runs in any case.
        let site = refused.iter().any(|(name, _)| name.contains("sitecustomize"));
        // The monitor has given up the rights to mount and to make devices, and passes on no environment.
        assert!(site && refused.len() <= 5, "{refused:?}");
        Ok(())
    });
}

/// Runs an app that ends itself in this way beside the learning switch.
fn deadly(how: &'static str, words: &'static [&'static str]) {
    in_a_lab(move |lab| {
        let object = format!("{}/../python/hostile/deadly.py", env!("CARGO_MANIFEST_DIR"));
        let switch = example("learning_switch");
        fs::write("/etc/rosemary/how", how)?;
        let config = format!(
            "[[app]]\nname = \"learning\"\nobject = \"{switch}\"\n\
             [[app]]\nname = \"deadly\"\nobject = \"{object}\"\nconfig = \"how\"\nstage = \"observe\"\n\
             hang-seconds = 1\nlimits = {{ memory = \"128 MiB\" }}\n"
        );
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        let mut net = Net::start_with(lab, Of::V1_3, &[])?;
        let [h4, h5] = ["h4", "h5"].map(|name| lab.host(name, &net.s1));
        let (_h4, h5) = (h4?, h5?);
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
        let established = net.h1.ping_in_background(&net.h2, 100, INTERVAL)?;
        h5.ping(&net.h1, 1, INTERVAL)?;
        println!("{}", net.rosemary.wait_for_log(words, Duration::from_secs(30))?);
        assert_eq!(established.finish()?.lost(), 0);
        let new = net.h3.ping(&net.h2, 5, INTERVAL)?;
        assert!(new.lost() <= 1, "{new:?}");
        let status = net.status()?;
        assert_eq!(status.app("learning").map(|app| app.restarts), Some(0), "{status:?}");
        Ok(())
    });
}

#[test]
fn exit_of_an_app_in_python_is_contained() {
    deadly("exit_at_once", &["died", "zone deadly", "exited with code 1"]);
}

#[test]
fn endless_loop_in_python_is_contained() {
    deadly("loop", &["zone deadly", "its app hung"]);
}

#[test]
fn leak_in_python_is_contained() {
    deadly("leak", &["zone deadly", "died"]);
}

#[test]
fn endless_recursion_in_python_is_contained() {
    deadly("recurse", &["zone deadly", "died"]);
}

#[test]
fn crash_in_python_is_contained() {
    deadly("crash", &["died", "zone deadly", "SIGSEGV"]);
}

#[test]
fn threads_without_end_in_python_are_contained() {
    deadly("threads", &["zone deadly", "died"]);
}

#[test]
fn signed_package_in_python_installs_and_runs() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        let dir = joe.dir("hub").display().to_string();
        developer::rosemary(lab, &["app", "new", "hub", "--python", "--dir", &dir])?;
        // A second module, which only the archive has.
        fs::write(joe.dir("hub").join("ports.py"), "LEARNED = {}\n")?;
        let app = joe.dir("hub").join("app.py");
        fs::write(
            &app,
            fs::read_to_string(&app)? + "\n\nimport ports\n\nprint('imported', ports.__file__)\n",
        )?;
        let home = joe.home.display().to_string();
        let package = developer::rosemary(lab, &["app", "build", &dir, "--out", &home])?;
        let package = package.trim();
        joe.sign(lab, package)?;
        developer::trust(&[&joe.trust("")], "")?;
        developer::rosemary(lab, &["app", "install", package])?;
        developer::trust(&[&joe.trust("")], "[[app]]\nname = \"hub\"\n")?;
        let up = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        let mut net = Net::of(lab, Of::V1_3, up)?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        assert_eq!(net.flows_to(&net.h1)?.len(), 1);
        println!("{}", net.rosemary.wait_for_log(&["imported /app/", "ports.py"], SOON)?);
        let log = net.rosemary.log();
        assert!(!log.contains("UNSIGNED"), "{log}");
        Ok(())
    });
}

#[test]
fn features_reach_the_app_over_openflow_1_0() {
    in_a_lab(|lab| features(lab, Of::V1_0));
}

#[test]
fn features_reach_the_app_over_openflow_1_3() {
    in_a_lab(|lab| features(lab, Of::V1_3));
}

/// The features reply of a switch arrives, and the codec encodes it as it was.
fn features(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let source = "import rosemary, rosemary.openflow\n\
                  class Features(rosemary.App):\n    \
                  def on_switch_up(self, event, network):\n        \
                  reply = rosemary.openflow.decode(event.features)\n        \
                  assert reply.encode() == event.features\n        \
                  network.info(f'features: {reply}')\n";
    let app = written(source)?;
    let mut net = Net::start_with(lab, of, &["--app", &app.to_string_lossy()])?;
    let line = net.rosemary.wait_for_log(&["features:", "FEATURES_REPLY"], SOON)?;
    println!("{line}");
    assert!(line.contains("n_tables:254"), "{line}");
    Ok(())
}
