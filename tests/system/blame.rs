//! Which app is blamed for the end of the kernel: only the one on the thread that ended it.

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use control::incident::{Incident, Program};
use rosemary_tests::apps::{configure, in_c_with};
use rosemary_tests::emulated::Emulated;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, kill, rosemary_binary, schema};

/// The app that ends the kernel.
const CULPRIT: &str = "culprit";

/// The app that is inside a call meanwhile.
const BYSTANDER: &str = "bystander";

/// How the kernel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Fault,
    Exit,
    Killed,
}

#[test]
fn app_that_faults_is_blamed_alone() {
    in_a_lab(|lab| kernel_ends(lab, End::Fault));
}

#[test]
fn app_that_exits_is_blamed_alone() {
    in_a_lab(|lab| kernel_ends(lab, End::Exit));
}

#[test]
fn app_in_a_killed_kernel_is_not_blamed() {
    in_a_lab(|lab| kernel_ends(lab, End::Killed));
}

fn kernel_ends(lab: &Lab, end: End) -> anyhow::Result<()> {
    let keys = "stage = \"observe\"\nhost = \"kernel\"\nhang-seconds = 30";
    let app = |name, waits: &str| {
        let exits = format!("-DEXITS={}", u8::from(end == End::Exit));
        in_c_with(lab, name, "apps/crasher.c", keys, &[waits, &exits])
    };
    configure(&[&app(CULPRIT, "-DWAITS=0")?, &app(BYSTANDER, "-DWAITS=1")?])?;
    let args = ["--workers", "2"];
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
    let (mut one, mut two) = (Emulated::connect(1)?, Emulated::connect(2)?);
    let pid = rosemary.wait_for("the apps run", SOON, |status| status.programs.kernel.pid)?;
    one.packet_in(&[1; 64])?;
    rosemary.wait_for_log(&[BYSTANDER, "waits"], SOON)?;
    match end {
        End::Fault | End::Exit => two.packet_in(&[2; 64])?,
        End::Killed => kill(pid)?,
    }
    rosemary.wait_for("the kernel is back", SOON, |status| {
        status.programs.kernel.pid.filter(|now| *now != pid)
    })?;
    let json = lab.run(&rosemary_binary().display().to_string(), &["incidents", "--json"])?;
    schema::check("incidents", &json)?;
    let incidents: Vec<Incident> = serde_json::from_str(&json)?;
    let mut of_kernel = incidents.into_iter().filter(|it| it.program == Program::kernel());
    let incident = of_kernel.next().context("it is recorded")?;
    println!("{end:?}: {incident:?}");
    let evidence = &incident.evidence;
    let blamed = (end != End::Killed).then_some(CULPRIT);
    ensure!(evidence.blamed.as_deref() == blamed && evidence.called == [BYSTANDER], "{incident:?}");
    ensure!(evidence.crash.is_some() == (end == End::Fault), "{incident:?}");
    let status = rosemary.wait_for("the apps run", SOON, |status| {
        let hosted = |app| status.app(app).map(|app| app.host.clone());
        (hosted(CULPRIT).is_some() && hosted(BYSTANDER).is_some()).then(|| status.clone())
    })?;
    let host = |app| status.app(app).map(|app| app.host.as_str());
    ensure!(host(BYSTANDER) == Some("kernel"), "it was only inside a call: {status:?}");
    ensure!(host(CULPRIT) == Some(if blamed.is_some() { "user" } else { "kernel" }), "{status:?}");
    Ok(())
}
