//! Attacks of apps in Python, alone and together. `make hostile` runs them, too.

mod monitor;

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::{LIMIT, in_a_lab, in_a_lab_for, rosemary_binary};

use super::example;

/// Where the lab's own `/etc` has the configuration.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// The least number of attempts in `python/hostile/attempts.py`.
const ATTEMPTS: usize = 34;

/// The ways in which `python/hostile/deadly.py` ends or blocks its process, and words of the log about each.
const DEADLY: [(&str, &[&str]); 6] = [
    ("exit_at_once", &["died", "exited with code 1"]),
    ("loop", &["its app hung"]),
    ("leak", &["died"]),
    ("recurse", &["died"]),
    ("crash", &["died", "SIGSEGV"]),
    ("threads", &["died"]),
];

/// The attempts of an app in Python, and their results.
fn attempts(lab: &Lab, args: &[&str]) -> anyhow::Result<Vec<(String, String)>> {
    let dir = "/etc/rosemary/lib";
    fs::create_dir_all(dir)?;
    fs::write(format!("{dir}/evil.pth"), "import sys; sys.pth_ran = True\n")?;
    fs::write(format!("{dir}/sitecustomize.py"), "import sys; sys.pth_ran = True\n")?;
    let object = format!("{}/../python/hostile/attempts.py", env!("CARGO_MANIFEST_DIR"));
    let config = format!(
        "[[app]]\nname = \"attempts\"\nobject = \"{object}\"\npython-path = [\"{dir}\"]\n\
         listen = [\"web=127.0.0.1:8090\"]\nlimits = {{ log-bytes-per-second = \"1 MiB\" }}\n"
    );
    fs::write(CONFIG, config)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), args)?;
    rosemary.wait_for_log(&["attempts are over"], Duration::from_secs(60))?;
    Ok(results(&rosemary.log()))
}

/// The attempts in a log, and their results.
fn results(log: &str) -> Vec<(String, String)> {
    let found = log.lines().filter_map(|line| {
        let (name, result) = line.split_once("attempt: ")?.1.split_once(": ")?;
        Some((name.to_owned(), result.split(" app=").next()?.to_owned()))
    });
    found.collect()
}

/// Prints the attempts as `make hostile` shows them, and checks that none succeeded.
fn contained(found: &[(String, String)]) {
    let (got, refused): (Vec<_>, Vec<_>) = found.iter().partition(|(_, result)| result == "GOT");
    for (name, result) in &refused {
        println!("contained {name}: {result}");
    }
    println!("in Python: {} contained, {} escaped", refused.len(), got.len());
    assert!(got.is_empty(), "{got:?}");
}

#[test]
fn attempts_of_an_app_in_python_are_refused() {
    in_a_lab(|lab| {
        let found = attempts(lab, &[])?;
        assert!(found.len() >= ATTEMPTS, "{}", found.len());
        contained(&found);
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
fn deadly(how: &'static str) {
    in_a_lab(move |lab| {
        let words = DEADLY.iter().find(|(it, _)| *it == how).context("a way to end")?.1;
        let words = &[words, &["zone deadly"]].concat();
        let object = format!("{}/../python/hostile/deadly.py", env!("CARGO_MANIFEST_DIR"));
        let switch = example("learning_switch");
        fs::write("/etc/rosemary/how", how)?;
        let config = format!(
            "[[app]]\nname = \"learning\"\nobject = \"{switch}\"\n\
             [[app]]\nname = \"deadly\"\nobject = \"{object}\"\nconfig = \"how\"\nstage = \"observe\"\n\
             hang-seconds = 1\nlimits = {{ memory = \"128 MiB\" }}\n"
        );
        fs::write(CONFIG, config)?;
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
    deadly("exit_at_once");
}

#[test]
fn endless_loop_in_python_is_contained() {
    deadly("loop");
}

#[test]
fn leak_in_python_is_contained() {
    deadly("leak");
}

#[test]
fn endless_recursion_in_python_is_contained() {
    deadly("recurse");
}

#[test]
fn crash_in_python_is_contained() {
    deadly("crash");
}

#[test]
fn threads_without_end_in_python_are_contained() {
    deadly("threads");
}

#[test]
fn attacks_in_python_are_contained_together() {
    in_a_lab_for(2 * LIMIT, |lab| {
        let dir = format!("{}/../python/hostile", env!("CARGO_MANIFEST_DIR"));
        let mut config = format!(
            "[[app]]\nname = \"learning\"\nobject = \"{}\"\n\
             [[app]]\nname = \"attempts\"\nobject = \"{dir}/attempts.py\"\nstage = \"observe\"\n\
             limits = {{ log-bytes-per-second = \"1 MiB\" }}\n",
            example("learning_switch")
        );
        for (how, _) in DEADLY {
            fs::write(format!("/etc/rosemary/{how}"), how)?;
            let name = how.replace('_', "-");
            let entry = format!(
                "[[app]]\nname = \"{name}\"\nobject = \"{dir}/deadly.py\"\nconfig = \"{how}\"\n\
                 stage = \"observe\"\nhang-seconds = 1\nlimits = {{ memory = \"128 MiB\" }}\n"
            );
            config += &entry;
        }
        fs::write(CONFIG, config)?;
        let mut net = Net::start_with(lab, Of::V1_3, &[])?;
        let [h4, h5] = ["h4", "h5"].map(|name| lab.host(name, &net.s1));
        let (_h4, h5) = (h4?, h5?);
        for (how, _) in DEADLY {
            let name = how.replace('_', "-");
            net.rosemary.wait_for_log(
                &["app was connected to the kernel", &name],
                Duration::from_secs(30),
            )?;
        }
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
        let established = net.h1.ping_in_background(&net.h2, 100, INTERVAL)?;
        h5.ping(&net.h1, 1, INTERVAL)?;
        for (how, words) in DEADLY {
            let zone = format!("zone {}", how.replace('_', "-"));
            let words = [words, &[&*zone]].concat();
            println!("{}", net.rosemary.wait_for_log(&words, Duration::from_secs(60))?);
        }
        net.rosemary.wait_for_log(&["attempts are over"], Duration::from_secs(60))?;
        assert_eq!(established.finish()?.lost(), 0, "established flows stay");
        let new = net.h3.ping(&net.h2, 10, INTERVAL)?;
        assert!(new.lost() <= 1, "{new:?}");
        let log = net.rosemary.log();
        let found = results(&log);
        // Attempts whose lines exceeded the log's limit are missing.
        assert!(found.len() >= ATTEMPTS / 2, "{found:?}");
        contained(&found);
        let status = net.status()?;
        assert_eq!(status.app("learning").map(|app| app.restarts), Some(0), "{status:?}");
        Ok(())
    });
}
