//! The interface is killed under load: no other program notices, and clients connect again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use rosemary_tests::{in_a_lab_for, kill};

use super::{get, start, wait_for_api};

/// Name, process and restarts of the other programs.
fn others(rosemary: &Rosemary<'_>) -> anyhow::Result<Vec<(String, Option<u32>, u64)>> {
    let programs = rosemary.status()?.context("it answers")?.programs;
    let services = programs.services.iter().filter(|it| it.name != "northbound");
    let services = services.map(|it| (it.name.clone(), it.pid, it.restarts));
    let apps = programs.apps.iter().map(|it| (it.name.clone(), it.pid, it.restarts));
    let kernel = [("kernel".to_owned(), programs.kernel.pid, programs.kernel.restarts)];
    Ok(services.chain(apps).chain(kernel).collect())
}

fn pid(rosemary: &Rosemary<'_>) -> anyhow::Result<Option<u32>> {
    let services = rosemary.status()?.context("it answers")?.programs.services;
    Ok(services.iter().find(|it| it.name == "northbound").and_then(|it| it.pid))
}

fn kill_under_load(times: u32, limit: Duration) {
    in_a_lab_for(limit, move |lab| {
        let rosemary = start(lab)?;
        let before = others(&rosemary)?;
        let (done, answers) = (AtomicBool::new(false), AtomicU64::new(0));
        let result = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        if get("/api/v1/switches").is_ok_and(|it| it.status == 200) {
                            answers.fetch_add(1, Ordering::Relaxed);
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    }
                });
            }
            let mut last = None;
            let result = (0..times).try_for_each(|number| {
                let deadline = Instant::now() + Duration::from_secs(30);
                let seen = answers.load(Ordering::Relaxed);
                while answers.load(Ordering::Relaxed) == seen {
                    ensure!(Instant::now() < deadline, "kill {number}: clients are not served");
                    std::thread::sleep(Duration::from_millis(10));
                }
                loop {
                    // The monitor may not know yet that the last one is dead, nor whether its number is that of the process or of
                    // its init.
                    let victim = pid(&rosemary)?.filter(|pid| Some(*pid) != last);
                    if let Some(victim) = victim.filter(|pid| kill(*pid).is_ok()) {
                        last = Some(victim);
                        return Ok(());
                    }
                    ensure!(Instant::now() < deadline, "kill {number}: it does not start");
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            done.store(true, Ordering::Relaxed);
            result
        });
        result?;
        wait_for_api()?;
        ensure!(others(&rosemary)? == before, "{:?} became {:?}", before, others(&rosemary)?);
        ensure!(get("/api/v1/switches")?.json()["total"] == 1);
        Ok(())
    });
}

#[test]
fn kills_disturb_nobody() {
    let times = std::env::var("ROSEMARY_DEATHS").ok().and_then(|it| it.parse().ok()).unwrap_or(5);
    kill_under_load(times, Duration::from_secs(60) + times * Duration::from_secs(12));
}
