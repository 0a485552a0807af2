//! Runs all hostile apps beside the firewall and the learning switch: one after the other as
//! observers and as the first control app, then together. A run without the sandbox shows that the
//! test detects escapes.
//!
//! `make hostile` runs all, `make hostile UNCONFINED=1` runs all without restrictions; `make test`
//! runs some of each.

use std::env;
use std::time::Duration;

use rosemary_tests::in_a_lab_for;

use super::list::{Attacker, Free, QUICK, QUICK_FIRST, QUICK_UNCONFINED, attackers};
use super::trial::{Impact, Testbed, Verdict};

/// Time limits on a busy machine, for all of them and for the part in `make test`.
const ALL: Duration = Duration::from_secs(45 * 60);
const SOME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of apps, minus the three that run beside them.
const TOGETHER: usize = 61;

#[test]
fn hostile_apps_are_contained() {
    if !let_loose() {
        run(false);
    }
}

#[test]
fn unrestricted_hostile_apps_escape() {
    if let_loose() || !is_all() {
        run(true);
    }
}

fn is_all() -> bool {
    env::var_os("ROSEMARY_HOSTILE").is_some_and(|which| which == "all")
}

fn let_loose() -> bool {
    env::var_os("ROSEMARY_UNCONFINED").is_some_and(|word| !word.is_empty())
}

fn run(let_loose: bool) {
    let only = env::var("ROSEMARY_ATTACKERS").unwrap_or_default();
    in_a_lab_for(if is_all() { ALL } else { SOME }, move |lab| {
        let attackers = attackers(lab, |name| match &*only {
            "" if let_loose => is_all() || QUICK_UNCONFINED.contains(&name),
            "" => is_all() || QUICK.contains(&name),
            only => only.split(',').any(|one| one == name),
        })?;
        let stage = Testbed::set(lab)?;
        let mut wrong = Vec::new();
        let mut summary = Summary::default();
        for attacker in &attackers {
            for verdict in stage.run(std::slice::from_ref(attacker), let_loose)? {
                summary.count(&verdict);
                wrong.extend(surprise(attacker, &verdict, let_loose));
            }
        }
        let is_wanted =
            |it: &Attacker| is_all() || !only.is_empty() || QUICK_FIRST.contains(&&*it.name);
        if !let_loose {
            println!("as the first control app:");
            let first = attackers.iter().filter(|it| is_wanted(it)).filter_map(Attacker::as_first);
            for attacker in first {
                for verdict in stage.run(std::slice::from_ref(&attacker), false)? {
                    summary.count(&verdict);
                    let surprise = surprise(&attacker, &verdict, false);
                    wrong.extend(surprise.map(|what| format!("first: {what}")));
                }
            }
        }
        if !let_loose {
            let halves = attackers.len().div_ceil(TOGETHER).max(1);
            for half in attackers.chunks(attackers.len().div_ceil(halves).max(1)) {
                println!("together: {}", half.len());
                for (attacker, verdict) in half.iter().zip(stage.run(half, false)?) {
                    summary.count(&verdict);
                    // Beside seventy others it gets too little processor time for the limit of rings.
                    let surprise = surprise(attacker, &verdict, false);
                    let is_slow = attacker.name == "doorbells" && verdict.escapes.is_empty();
                    wrong.extend(surprise.filter(|_| !is_slow));
                }
            }
        }
        print!("{}", summary.impact);
        println!("{} contained, {} escaped", summary.contained, summary.escaped);
        anyhow::ensure!(wrong.is_empty(), "{wrong:#?}");
        Ok(())
    });
}

#[derive(Debug)]
struct Summary {
    contained: u32,
    escaped: u32,
    /// Impact of the apps that keep the machine busy, as a table.
    impact: String,
}

impl Default for Summary {
    fn default() -> Self {
        let impact = "| beside | first packets of new flows, median | with it quiet | times | `rosemary status`, at most |\n\
                    | --- | ---: | ---: | ---: | ---: |\n";
        Self { contained: 0, escaped: 0, impact: impact.to_owned() }
    }
}

impl Summary {
    /// Counts a verdict and prints it.
    fn count(&mut self, verdict: &Verdict) {
        let Verdict { name, escapes, record, refused, impact } = verdict;
        if escapes.is_empty() {
            self.contained += 1;
            println!("contained {name}: {refused} refusals");
        } else {
            self.escaped += 1;
            println!("ESCAPED   {name}: {}", escapes.join("; "));
        }
        if let Some(record) = record {
            println!("          {record}");
        }
        if let Some(Impact { quiet, beside, status }) = impact {
            let times = beside.as_secs_f64() / quiet.as_secs_f64();
            let [quiet, beside, status] =
                [quiet, beside, status].map(|time| time.as_secs_f64() * 1000.0);
            let row = format!(
                "| {name} | {beside:.2} ms | {quiet:.2} ms | {times:.1} | {status:.0} ms |\n"
            );
            print!("          {row}");
            self.impact += &row;
        }
    }
}

/// Returns the difference from the expected outcome.
fn surprise(attacker: &Attacker, verdict: &Verdict, let_loose: bool) -> Option<String> {
    let name = &attacker.name;
    let gets_out = let_loose && attacker.free != Free::Never;
    if gets_out == verdict.escapes.is_empty() {
        let why = if gets_out {
            "its escape was not detected".into()
        } else {
            verdict.escapes.join("; ")
        };
        return Some(format!("{name}: {why}"));
    }
    let needs_record = !let_loose && attacker.leaves_a_record();
    (needs_record && verdict.record.is_none()).then(|| format!("{name}: there is no record of it"))
}
