//! Random faults in a network with traffic. `make chaos` runs more of them.

use std::time::Duration;

use anyhow::ensure;
use cli::lab::Of;
use rosemary_tests::chaos::{self, Forwarder};
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::random::Random;

/// Longest duration of a step while other tests run, three times that of `make chaos`.
const STEP_LIMIT: Duration = Duration::from_secs(30);

#[test]
fn random_faults_break_no_invariant() {
    in_a_lab_without_capture_for(Duration::from_secs(600), |lab| {
        let seed = Random::seeded().bits();
        println!("make chaos SEED={seed} STEPS=30 repeats the faults");
        let summary = chaos::run(lab, (Forwarder::LearningSwitch, Of::V1_3), seed, 30, STEP_LIMIT)?;
        ensure!(summary.broken.is_empty(), "{summary}: {}", summary.broken.join("; "));
        Ok(())
    });
}
