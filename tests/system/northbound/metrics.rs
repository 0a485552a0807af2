//! The times of packet-ins, as Prometheus reads them.

use anyhow::ensure;
use cli::lab::{Of, Rosemary};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::net::INTERVAL;
use rosemary_tests::{in_a_lab, rosemary_binary};

use super::{SOON, get, wait_for_api};

const NAME: &str = "rosemary_app_packet_in_duration_seconds";

/// The samples of an app of at most `bound` seconds; `None` if there is no such line.
fn up_to(text: &str, app: &str, bound: &str) -> Option<u64> {
    let start = format!("{NAME}_bucket{{app=\"{app}\",le=\"{bound}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start))?.parse().ok()
}

#[test]
fn slow_app_shows_in_the_histogram_of_packet_ins() {
    in_a_lab(|lab| {
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        let switch = "[[app]]\nname = \"learning-switch\"\n";
        // It takes 200 ms for each packet.
        configure(&[&in_rust("slow", "stage = \"observe\""), switch])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        wait_for_api()?;
        h1.ping(&h2, 2, INTERVAL)?;
        let text = lab.wait_for("both apps have samples", SOON, |evidence| {
            let text = get("/metrics").map(|answer| answer.body).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let slow = up_to(&text, "slow", "+Inf").unwrap_or(0);
            let early = up_to(&text, "learning-switch", "0.1").unwrap_or(0);
            evidence.0 = text.clone();
            Ok((slow > 0 && early > 0).then_some(text))
        })?;
        ensure!(up_to(&text, "slow", "0.1") == Some(0), "{text}");
        lab.run("sh", &["-c", "curl -s http://127.0.0.1:9302/metrics | promtool check metrics"])?;
        Ok(())
    });
}
