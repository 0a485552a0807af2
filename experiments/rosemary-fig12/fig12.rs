//! Shows that Rosemary authenticates an app before it runs it, and checks its system calls against its grants
//! (*Rosemary* Fig. 12). The other controller runs any file.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Lab, Rosemary};
use rosemary_tests::apps::in_c;
use rosemary_tests::developer::{Developer, entry, refused, rosemary, trust};
use rosemary_tests::experiment::{Experiment, NOT_MEASURED, Verdict, finished, note};
use rosemary_tests::{os_ken, rosemary_binary};

/// Time limit for an app to start and to write a line.
const PATIENCE: Duration = Duration::from_secs(20);

const HUB: &str = "[[app]]\nname = \"hub\"\n";

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/rosemary-fig12")
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rosemary-fig12", &["cc", "python3"])?;
    let program = experiment.os_ken()?;
    let lab = Lab::enter()?;
    note("installing packages of each kind in Rosemary");
    let (refusals, runs) = with_packages(&lab)?;
    note("running an app that reads and writes foreign files in Rosemary");
    let (reads, record) = with_system_calls(&lab)?;
    let app = fs::read(here().join("files.py"))?;
    let mut text =
        format!("| the app | Rosemary | os-ken {} |\n| --- | --- | --- |\n", os_ken::VERSION);
    let (mut whole, mut ran_whole, mut ran_changed) =
        (NOT_MEASURED.to_owned(), NOT_MEASURED, NOT_MEASURED);
    let mut verdict = Verdict::default();
    verdict.require(runs.starts_with("runs"), "a package does not run as its developer signed it");
    verdict.require(reads.starts_with("refused"), "an app reads a foreign file in Rosemary");
    if let Some(program) = program {
        note("running the app in os-ken");
        whole = with_os_ken(&lab, &program, &app)?;
        verdict.require(whole.starts_with("GOT"), "os-ken's app cannot read the file either");
        let changed = with_os_ken(&lab, &program, &[&app[..], b"# changed\n"].concat())?;
        (ran_whole, ran_changed) = (ran(&whole), ran(&changed));
    }
    writeln!(text, "| as its developer signed it | {runs} | {ran_whole} |")?;
    for (what, why) in refusals {
        // os-ken depends on the file alone, and only one case changes that.
        let there = if what.contains("changed") { ran_changed } else { ran_whole };
        writeln!(text, "| {what} | {why} | {there} |")?;
    }
    writeln!(text, "| reads `/etc/shadow` | {reads} | {whole} |")?;
    writeln!(text, "\nThe operator's record of a call that was refused: `{record}`")?;
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn ran(said: &str) -> &'static str {
    if said.is_empty() { "does not run" } else { "runs" }
}

/// Returns the reason of each refusal, and the result for the valid package.
fn with_packages(lab: &Lab) -> anyhow::Result<(Vec<(&'static str, String)>, String)> {
    let (joe, eve) = (Developer::new(lab, "joe")?, Developer::new(lab, "eve")?);
    let package = joe.package(lab, "hub", "")?;
    let signature = format!("{package}.minisig");
    let (bytes, signed) = (fs::read(&package)?, fs::read(&signature)?);
    let mut refusals = Vec::new();
    let mut refuse = |what: &'static str| -> anyhow::Result<()> {
        let said = refused(lab, &["app", "install", &package])?;
        let (_, why) =
            said.split_once("because: ").or_else(|| said.split_once(": ")).context(said.clone())?;
        // The remedy follows the reason.
        let end = ["; ", ". ", "\n"].iter().filter_map(|end| why.find(end)).min();
        let why = why.get(..end.unwrap_or(why.len())).unwrap_or(why).replace("/run/lab/joe/", "");
        refusals.push((what, format!("refused: {why}")));
        Ok(())
    };
    trust(&[&joe.trust("")], "")?;
    fs::remove_file(&signature)?;
    refuse("not signed")?;
    fs::write(&signature, &signed)?;
    let mut changed = bytes.clone();
    if let Some(byte) = changed.get_mut(3000) {
        *byte ^= 1;
    }
    fs::write(&package, changed)?;
    refuse("changed in one bit")?;
    fs::write(&package, &bytes)?;
    eve.sign(lab, &package)?;
    refuse("signed by somebody else")?;
    fs::write(&signature, &signed)?;
    trust(&[&joe.trust("revoked = true\n")], "")?;
    refuse("signed with a key that was revoked")?;
    trust(&[&entry("joe", &joe.public()?, "capabilities = [\"packet-out\"]\n")], "")?;
    refuse("asks for more than its developer's apps may have")?;

    trust(&[&joe.trust("")], "")?;
    rosemary(lab, &["app", "install", &package])?;
    trust(&[&joe.trust("")], HUB)?;
    let mut running = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let by =
        running.wait_for("it runs", PATIENCE, |status| status.app("hub")?.signed_by.clone())?;
    running.stop(rustix::process::Signal::TERM)?;
    fs::remove_file("/var/lib/rosemary/apps/hub.rosemary")?;
    Ok((refusals, format!("runs, as one of {by}'s")))
}

/// Returns an app's error for reading a file without a grant, and the operator's record of a write.
fn with_system_calls(lab: &Lab) -> anyhow::Result<(String, String)> {
    let files = in_c(lab, "files", "../crates/apps/hostile/files.c", "stage = \"observe\"")?;
    rosemary_tests::apps::configure(&[&files])?;
    let mut running = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let said = running.wait_for_log(&["files", "reading /etc/shadow"], PATIENCE)?;
    let record = running.wait_for_log(&["refused a system call", "app=\"files\""], PATIENCE)?;
    let said = said.split_once("REFUSED ").map_or(&*said, |(_, said)| said);
    let said = said.split(" app=").next().unwrap_or(said);
    Ok((format!("refused: {said}"), record.trim().to_owned()))
}

/// Returns the app's output in os-ken, if it runs.
fn with_os_ken(lab: &Lab, program: &Path, app: &[u8]) -> anyhow::Result<String> {
    let path = lab.files().join("files.py");
    fs::write(&path, app)?;
    let os_ken = os_ken::start(lab, program, 6654, &[path])?;
    let said = lab.wait_for("os-ken runs its app", PATIENCE, |evidence| {
        let said = os_ken.stderr();
        evidence.0.clone_from(&said);
        Ok(said.lines().find(|line| line.starts_with("GOT")).map(ToOwned::to_owned))
    })?;
    Ok(said)
}
