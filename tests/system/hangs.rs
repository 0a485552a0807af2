//! An app whose call does not come back: it is ended, the operator is told what it did, and nobody else
//! notices. In the kernel: `kernel_app.rs`.

use anyhow::Context as _;
use cli::lab::Of;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};

#[test]
fn app_that_hangs_is_ended_with_a_record_and_started_again_and_the_others_go_on() {
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
        let words = ["killed it", "zone hangs", "its app hung: one call lasted", "allows 1"];
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
