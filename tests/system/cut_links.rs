//! Programs die, then a link is cut: established pings use another path, and no host is forgotten.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use rosemary_tests::chaos::cuts::{Cuts, DEATHS, Death, RING};
use rosemary_tests::net::SOON;
use rosemary_tests::random::Random;
use rosemary_tests::{in_a_lab_without_capture_for, schema};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

/// By how much longer than promised an outage may be while other tests run.
const MARGIN: u32 = 10;

/// The links of the ring.
const LINKS: [usize; 3] = [0, 1, 2];

/// Returns the hosts that Rosemary shows.
fn hosts(cuts: &Cuts<'_>) -> anyhow::Result<Vec<Value>> {
    let (is_done, text, notes) = cuts.rosemary(&["hosts", "--json"])?;
    ensure!(is_done, "{notes}");
    schema::check("hosts", &text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Checks that all hosts are known without having sent anything that reaches the controller: their flows are in the switches.
fn all_hosts_are_known(lab: &Lab, cuts: &Cuts<'_>) -> anyhow::Result<()> {
    lab.wait_for("all hosts are known", SOON, |evidence| {
        let known = hosts(cuts).unwrap_or_default();
        evidence.0 = format!("{known:#?}");
        let expected = cuts.hosts().iter().all(|host| {
            let is_it = |it: &&Value| it["mac"] == host.mac().as_str();
            let addresses = known.iter().find(is_it).map(|it| it["addresses"].to_string());
            addresses.is_some_and(|it| it.contains(&host.address()))
        });
        Ok(expected.then_some(()))
    })?;
    Ok(())
}

#[test]
fn cut_after_restarts_is_survived_in_1_0() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut cuts = Cuts::start(lab, Of::V1_0, RING, MARGIN)?;
        for (death, link) in [(Death::Services, 0), (Death::Rosemary, 1)] {
            let outages = cuts.step(death, Duration::from_millis(300), &[link])?;
            println!("{death}: {outages:?}");
            all_hosts_are_known(lab, &cuts)?;
        }
        Ok(())
    });
}

#[test]
fn cut_while_rosemary_is_away_is_survived_in_1_3() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut cuts = Cuts::start(lab, Of::V1_3, RING, MARGIN)?;
        let death = Death::RosemaryWhileAway;
        let outages = cuts.step(death, Duration::from_millis(300), &[0])?;
        println!("{death}: {outages:?}");
        all_hosts_are_known(lab, &cuts)
    });
}

/// The same for each kind of death and each link of the ring, at random moments, in `make soak`. `ROSEMARY_DEATH` selects kinds by a
/// part of their names, and `ROSEMARY_OF` a version.
#[test]
#[ignore = "hours: make soak runs it"]
fn cuts_after_each_kind_of_death_are_survived() {
    let times: u32 = std::env::var("ROSEMARY_CUTS")
        .map_or(1, |times| times.parse().expect("ROSEMARY_CUTS is a number"));
    let limit = SOON * 6 * times * u32::try_from(DEATHS.len()).expect("a short list");
    let of_only = std::env::var("ROSEMARY_OF").unwrap_or_default();
    let versions = [Of::V1_0, Of::V1_3].into_iter().filter(|it| it.to_string().contains(&of_only));
    for of in versions {
        in_a_lab_without_capture_for(limit, move |lab| {
            let mut random = Random::seeded();
            let mut cuts = Cuts::start(lab, of, RING, 1)?;
            let only = std::env::var("ROSEMARY_DEATH").unwrap_or_default();
            for death in DEATHS.into_iter().filter(|it| it.to_string().contains(&only)) {
                let mut all = Vec::new();
                for _ in 0..times {
                    let mut links = LINKS;
                    links.rotate_left(usize::try_from(random.bits() % 3)?);
                    let delay = random.up_to(Duration::from_millis(1500));
                    let outages = cuts.step(death, delay, &links);
                    all.extend(outages.with_context(|| format!("{death}, OpenFlow {of}"))?);
                }
                all.sort_unstable();
                let middle = all.get(all.len() / 2).context("one at least")?;
                println!(
                    "OpenFlow {of}, {death}, {} links cut: no reply for {middle:?}, {:?} at most",
                    all.len(),
                    all.last()
                );
            }
            Ok(())
        });
    }
}
