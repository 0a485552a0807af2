//! Apps that hang: the app is ended with a log record, and nothing else is affected.
//! `kernel_app.rs` tests the same inside the kernel. Some of these apps hide their hang.

use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Of, Rosemary};
use rosemary_tests::apps::{configure, in_c, in_c_with};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};

/// Ten times the slowest detection.
const PATIENCE: Duration = Duration::from_secs(50);

#[test]
fn hung_app_is_ended_and_restarted() {
    in_a_lab(|lab| {
        let keys = "stage = \"observe\"\nhang-seconds = 1";
        let hangs = in_c(lab, "hangs", "apps/hangs.c", keys)?;
        configure(&[&hangs, &format!("[[app]]\nname = \"{APP}\"\n")])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let before = net.status()?;
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
        let mut established = net.h1.ping_in_background(&net.h2, 150, INTERVAL)?;
        established.wait_for(3, SOON)?;
        net.h3.ping(&net.h1, 1, INTERVAL)?;
        let words =
            ["killed the program", "zone hangs", "its app hung: one call lasted", "allows 1"];
        println!("{}", net.rosemary.wait_for_log(&words, SOON)?);
        let after = net.rosemary.wait_for("it is started again", SOON, |status| {
            (status.app("hangs")?.restarts >= 1).then(|| status.clone())
        })?;
        let why = after.app("hangs").and_then(|app| app.last_exit.clone()).context("it ended")?;
        assert!(why.contains("its app hung"), "{why}");
        assert_eq!(before.programs.kernel, after.programs.kernel);
        assert_eq!(before.app(APP), after.app(APP));
        assert_eq!(established.finish()?.lost(), 0);
        Ok(())
    });
}

/// Runs without the sandbox, which would refuse the signal that the guard sends itself.
#[test]
fn stopped_guard_is_ended() {
    in_a_lab(|lab| {
        let keys = "stage = \"guard\"\nfail = \"closed\"\nhang-seconds = 1";
        let stops = in_c(lab, "stops", "apps/stops.c", keys)?;
        configure(&[&stops, &format!("[[app]]\nname = \"{APP}\"\n")])?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--unconfined"])?;
        assert!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        net.h3.ping(&net.h1, 1, INTERVAL)?;
        for host in [&net.h1, &net.h2] {
            net.s1.ofctl(&["del-flows", &format!("dl_dst={}", host.mac())])?;
        }
        // Each of these packets requires the decision of the stopped guard.
        let blocked = net.h1.ping_in_background(&net.h2, 2_000, INTERVAL)?;
        // With or without packets that wait, as they come.
        let words = ["killed the program", "zone stops", "its main thread", "stopped", "allows 1"];
        println!("{}", net.rosemary.wait_for_log(&words, PATIENCE)?);
        net.rosemary.wait_for("it is started again", SOON, |status| {
            (status.app("stops")?.restarts >= 1).then_some(())
        })?;
        let before = blocked.received_so_far();
        lab.wait_for("the network goes on", PATIENCE, |_| {
            Ok((blocked.received_so_far() > before).then_some(()))
        })?;
        let status = net.status()?;
        assert_eq!(
            (status.programs.kernel.restarts, status.app(APP).map(|it| it.restarts)),
            (0, Some(0))
        );
        Ok(())
    });
}

#[test]
fn app_that_forges_its_progress_is_ended() {
    in_a_lab(|lab| {
        let source = "../crates/apps/hostile/deadly/forged_loaded.c";
        let keys = "stage = \"observe\"\nhang-seconds = 1";
        let forges = in_c_with(lab, "forges", source, keys, &["-std=gnu11"])?;
        configure(&[&forges])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let words =
            ["killed the program", "zone forges", "its app hung: it handled none of", "allows 1"];
        println!("{}", rosemary.wait_for_log(&words, PATIENCE)?);
        Ok(())
    });
}
