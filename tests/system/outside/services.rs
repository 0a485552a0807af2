//! Attacks on services and shared memory: tables, quotas of the storage, providers that lie or die, and the files of the state.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cli::lab::{Lab, Of, Rosemary};
use cli::status::Report;
use rosemary_tests::apps::{configure, in_c, in_c_with, in_rust};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::random::Random;
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, kill, rosemary_binary};
use rustix::process::Signal;

use super::beside::{memory_kib, pid, run};

const LIMIT: Duration = Duration::from_secs(500);

/// Time in which an app fills the storage.
const FILLING: Duration = Duration::from_secs(12);

/// Largest file of the storage: its quota for one app is 200 KiB, and a tree keeps old pages for a while.
const LARGEST_FILE: u64 = 16 << 20;

const STATE: &str = "/var/lib/rosemary";

const FORWARDING: &str = "[[app]]\nname = \"forwarding\"\n\n";

/// The commands that read the tables.
const READERS: [&[&str]; 6] = [
    &["topology", "--json"],
    &["topology", "--svg"],
    &["links", "--json"],
    &["hosts", "--json"],
    &["path", "1", "2", "--json"],
    &["status", "--json"],
];

#[test]
#[ignore = "an attack of `make hostile`"]
fn tables_are_written_by_their_provider_alone() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let keys = "services = [\"hosts\", \"topology\"]\nmemory = \"512 MiB\"\nstage = \"observe\"\n\
                    capabilities = [\"packet-in\", \"hosts.read\", \"topology.read\"]";
        let keys = keys.replace("memory = \"512 MiB\"\n", "limits = { memory = \"1 GiB\" }\n");
        configure(&[FORWARDING, &in_c(lab, "tables", "system/outside/apps/tables.c", &keys)?])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        lab.wait_for("hosts are known", SOON * 3, |_| {
            net.h1.ping(&net.h2, 2, INTERVAL)?;
            let (_, hosts) = run(lab, &["hosts", "--json"]).unwrap_or_default();
            Ok((hosts.contains(&net.h1.mac()) && hosts.contains(&net.h2.mac())).then_some(()))
        })?;
        let before = net.status()?;
        let mut pings = net.h1.ping_in_background(&net.h2, 10_000, INTERVAL)?;
        pings.wait_for(3, SOON)?;
        net.h3.ping(&net.h1, 3, INTERVAL)?;
        let sent = net.rosemary.wait_for_log(&["tables: SENT"], SOON * 3)?;
        let log = net.rosemary.log();
        let said = |word: &str| {
            log.lines()
                .filter(|line| line.contains("tables: ") && line.contains(word))
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        let (got, refused, found) = (said("GOT "), said("REFUSED "), said("FOUND "));
        let mut verdicts = Verdicts::default();
        let outcome = (|| {
            ensure!(got.is_empty(), "{got:#?}");
            ensure!(found.first().is_some_and(|it| !it.contains(" 0 mappings")), "{found:?}");
            let (_, hosts) = run(lab, &["hosts", "--json"])?;
            ensure!(hosts.contains(&net.h1.mac()) && hosts.contains(&net.h2.mac()), "{hosts}");
            Ok(format!(
                "{} attempts refused, {}",
                refused.len(),
                found[0].split("FOUND").last().unwrap_or_default()
            ))
        })();
        verdicts.judge("writing to a mapped table", outcome);
        let outcome = (|| {
            let after = net.status()?;
            for app in ["topology", "hosts", "forwarding"] {
                ensure!(pid(&after, app)? == pid(&before, app)?, "{app} was restarted");
            }
            let (_, drained) = run(lab, &["topology", "--json"])?;
            ensure!(!drained.contains("\"drained\":true"), "noise has drained a switch");
            let report = pings.end()?;
            let last = report.replies.last().map_or(0, |reply| reply.seq);
            ensure!(last as usize == report.replies.len(), "pings were lost: {report:?}");
            Ok(format!(
                "{} and no provider ended",
                sent.split("tables: ").last().unwrap_or_default()
            ))
        })();
        verdicts.judge("requests of noise to services", outcome);
        verdicts.finish()
    });
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn false_tables_end_no_reader() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut verdicts = Verdicts::default();
        for service in ["topology", "hosts", "stats"] {
            let outcome = false_table(lab, service);
            // After a failure, some of these are not there.
            let _ = lab.run("ovs-vsctl", &["--timeout=10", "--if-exists", "del-br", "s1"]);
            for host in ["h1", "h2", "h3"] {
                let _ = lab.run("ip", &["link", "del", &format!("s1-{host}")]);
                let _ = lab.run("ip", &["netns", "del", host]);
            }
            verdicts.judge(&format!("a false table of {service}"), outcome);
        }
        verdicts.judge("a provider that dies while it writes", dying_provider(lab));
        verdicts.finish()
    });
}

/// The provider of a service writes noise; `forwarding`, the commands and the HTTP interface read it.
fn false_table(lab: &Lab, service: &str) -> anyhow::Result<String> {
    let keys = "stage = \"observe\"\ncapabilities = [\"packet-in\"]\nservices = []";
    let liar = in_c(lab, service, "system/outside/apps/provider.c", keys)?;
    let stats = if service == "stats" { "" } else { "[[app]]\nname = \"stats\"\n\n" };
    configure(&[FORWARDING, stats, &liar])?;
    let mut net = Net::start(lab, Of::V1_3)?;
    net.rosemary.wait_for_log(&[service, "WRITTEN"], SOON)?;
    let before = net.status()?;
    let (begin, mut runs, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while begin.elapsed() < Duration::from_secs(6) {
        for args in READERS.iter().chain([&["stats", "--json"][..]].iter()) {
            let one = Instant::now();
            let (code, text) = run(lab, args)?;
            slowest = slowest.max(one.elapsed());
            ensure!(code.is_some_and(|code| code != 101), "{args:?} ended: {code:?} {text}");
            let log = net.rosemary.log();
            let panic = log.lines().find(|line| line.contains("panicked at"));
            ensure!(panic.is_none() && !text.contains("panicked at"), "{args:?}: {panic:?}");
            runs += 1;
        }
        net.h1.ping(&net.h2, 1, INTERVAL)?;
    }
    ensure!(slowest < SOON, "a command took {slowest:?}");
    let after = net.status()?;
    ensure!(after.programs.kernel == before.programs.kernel, "the kernel was restarted");
    let log = net.rosemary.log();
    let why: Vec<&str> = log.lines().filter(|it| it.contains("forwarding")).collect();
    let old = pid(&before, "forwarding")?;
    ensure!(pid(&after, "forwarding")? == old, "forwarding was restarted: {why:#?}");
    let services = |status: &Report| -> Vec<(String, Option<u32>)> {
        status.programs.services.iter().map(|it| (it.name.clone(), it.pid)).collect()
    };
    ensure!(services(&after) == services(&before), "{:?}", services(&after));
    let memory = memory_kib(pid(&after, "forwarding")?)?;
    ensure!(memory < 256 * 1024, "forwarding has {memory} KiB");
    Ok(format!("{runs} commands, the slowest took {slowest:?}; forwarding has {memory} KiB"))
}

/// The provider is killed again and again at random moments while a port flaps; what readers see is always whole.
fn dying_provider(lab: &Lab) -> anyhow::Result<String> {
    configure(&[FORWARDING])?;
    let mut net = Net::start(lab, Of::V1_3)?;
    net.h1.ping(&net.h2, 5, INTERVAL)?;
    let forwarding = pid(&net.status()?, "forwarding")?;
    let (mut random, mut kills, mut read, mut absent) = (Random::seeded(), 0, 0, 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(25) {
        for state in ["down", "up"] {
            lab.run("ip", &["link", "set", "s1-h3", state])?;
        }
        lab.pause(random.up_to(Duration::from_millis(300)))?;
        if let Some(now) = net.rosemary.status()?.and_then(|it| pid(&it, "topology").ok()) {
            kills += u32::from(kill(now).is_ok());
        }
        for args in [&["topology", "--json"][..], &["hosts", "--json"]] {
            let (code, text) = run(lab, args)?;
            if code == Some(0) {
                let whole: Result<serde_json::Value, _> = serde_json::from_str(&text);
                ensure!(whole.is_ok(), "{args:?}: {text}");
                ensure!(!text.contains("\"dpid\":\"00:00:00:00:00:00:00:00\""), "{text}");
                read += 1;
            } else {
                absent += 1;
            }
        }
    }
    ensure!(kills > 2 && read > 5, "{kills} kills, {read} whole tables");
    let status = net.status()?;
    ensure!(pid(&status, "forwarding")? == forwarding, "forwarding was restarted");
    lab.wait_for("packets pass after it", SOON * 4, |_| {
        Ok((net.h1.ping(&net.h3, 2, INTERVAL)?.received > 0).then_some(()))
    })?;
    Ok(format!("{kills} kills; {read} tables were whole, {absent} times there was none"))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn storage_keeps_its_quotas() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut verdicts = Verdicts::default();
        for (name, how) in
            [("keys without values", "-DKEYS"), ("values that are overwritten", "-DCHURN")]
        {
            verdicts.judge(name, filled(lab, how));
        }
        verdicts.finish()
    });
}

/// An app fills the storage beside another one, which must be served, and its quota must hold on the disk, too.
fn filled(lab: &Lab, how: &str) -> anyhow::Result<String> {
    let _ = fs::remove_dir_all(STATE);
    let keys = "stage = \"observe\"\nservices = [\"storage\"]\ncapabilities = [\"packet-in\"]";
    let filling = in_c_with(lab, "filling", "system/outside/apps/filling.c", keys, &[how])?;
    let quota = "[storage]\nbytes-per-app = \"200 KiB\"\n\n";
    configure(&[quota, &filling, &in_rust("keeper", "services = [\"storage\"]")])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
    let status = rosemary.status()?.context("it answers")?;
    let storage = status.programs.services.iter().find(|it| it.name == "storage");
    let storage = storage.and_then(|it| it.pid).context("it runs")?;
    let begin = Instant::now();
    let (mut largest, mut starts) = (0, 1);
    while begin.elapsed() < FILLING {
        lab.pause(Duration::from_secs(2))?;
        kill(pid(&rosemary.status()?.context("it answers")?, "keeper")?)?;
        starts += 1;
        let asked = Instant::now();
        rosemary.wait_for_log(&["keeper", &format!("start {starts} is kept")], SOON)?;
        ensure!(asked.elapsed() < SOON / 2, "the other app waited {:?}", asked.elapsed());
        largest = largest.max(fs::metadata(Path::new(STATE).join("storage.redb"))?.len());
    }
    let log = rosemary.log();
    let count = log.lines().filter(|line| line.contains("WRITTEN")).count();
    let refused = log.lines().find(|line| line.contains("REFUSED after"));
    ensure!(how != "-DKEYS" || refused.is_some(), "no quota holds: {count}");
    ensure!(largest < LARGEST_FILE, "the file has {largest} bytes");
    let after = rosemary.status()?.context("it answers")?;
    let same = after.programs.services.iter().any(|it| it.pid == Some(storage));
    ensure!(same, "the storage was restarted");
    rosemary.stop(Signal::TERM)?;
    let refused =
        refused.and_then(|line| line.split("REFUSED").last()).unwrap_or(" nothing refused");
    Ok(format!("{largest} bytes at most, refused{refused}, {starts} starts of the other app kept"))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn damaged_state_is_refused_or_survived() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let keeper = in_rust("keeper", "services = [\"storage\"]");
        configure(&[&keeper, "[[app]]\nname = \"learning-switch\"\n"])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        kill(pid(&rosemary.status()?.context("it answers")?, "keeper")?)?; // an incident
        rosemary.wait_for_log(&["keeper", "start 2 is kept"], SOON)?;
        rosemary.stop(Signal::TERM)?;
        let kept = lab.files().join("kept");
        let kept = kept.display().to_string();
        lab.run("cp", &["-a", STATE, &kept])?;
        let mut files = Vec::new();
        list(Path::new(&kept), Path::new(""), &mut files)?;
        println!("outside: state: {files:?}");
        let (mut verdicts, mut random) = (Verdicts::default(), Random::seeded());
        for damage in ["empty", "cut", "noise", "bits", "zeroes", "pipe", "link", "directory"] {
            let mut outcomes = Vec::new();
            let mut outcome = Ok(());
            for file in &files {
                match damaged(lab, (&kept, file), damage, &mut random) {
                    Ok(seen) => outcomes.push(format!("{file}: {seen}")),
                    Err(error) => outcome = Err(error.context(format!("{file}: {damage}"))),
                }
            }
            verdicts
                .judge(&format!("state files, {damage}"), outcome.map(|()| outcomes.join(", ")));
        }
        verdicts.finish()
    });
}

fn list(root: &Path, below: &Path, files: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(root, &path, files)?;
        } else if entry.metadata()?.len() > 0 {
            files.push(path.display().to_string());
        }
    }
    Ok(())
}

/// Starts Rosemary on a state with one damaged file: it runs, or refuses and names the file.
fn damaged(
    lab: &Lab,
    (kept, file): (&str, &str),
    damage: &str,
    random: &mut Random,
) -> anyhow::Result<String> {
    let _ = fs::remove_dir_all(STATE);
    lab.run("cp", &["-a", kept, STATE])?;
    let path = Path::new(STATE).join(file);
    let victim = lab.files().join("victim");
    fs::write(&victim, "not to be changed")?;
    let mut bytes = fs::read(&path)?;
    let at = usize::try_from(random.bits() % bytes.len() as u64)?;
    match damage {
        "empty" => bytes.clear(),
        "cut" => bytes.truncate(at),
        "noise" => bytes = random.bytes(bytes.len().min(1 << 20)),
        "bits" => (0..32).for_each(|step| {
            let place = (at + step * 97) % bytes.len();
            bytes[place] ^= 1 << (step % 8);
        }),
        _ => bytes.fill(0),
    }
    fs::write(&path, &bytes)?; // keeps owner and mode
    if ["pipe", "link", "directory"].contains(&damage) {
        fs::remove_file(&path)?;
    }
    match damage {
        "pipe" => drop(lab.run("mkfifo", &[&path.display().to_string()])?),
        "link" => symlink(&victim, &path)?,
        "directory" => fs::create_dir(&path)?,
        _ => {}
    }
    let begin = Instant::now();
    let mut up = lab.command(rosemary_binary());
    up.args(["up", "--allow-unsigned"]);
    let mut up = lab.start("damaged", up)?;
    let seen = loop {
        if let Some(status) = up.ended() {
            ensure!(status.code().is_some_and(|code| code != 101), "{status}: {}", up.stderr());
            let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
            let is_named = up.stderr().contains(&name) || up.stderr().contains(STATE);
            ensure!(is_named, "no word of the file: {}", up.stderr());
            break "refused";
        }
        let (code, text) = run(lab, &["status", "--json"])?;
        let runs = matches!(code, Some(0 | 3)) && text.contains("\"learning-switch\"");
        if runs && begin.elapsed() > Duration::from_millis(1200) {
            break if code == Some(0) { "runs" } else { "runs, degraded" };
        }
        if begin.elapsed() > SOON * 2 {
            bail!("neither runs nor ends: {}", up.stderr());
        }
        lab.pause(Duration::from_millis(50))?;
    };
    ensure!(!up.stderr().contains("panicked"), "{}", up.stderr());
    ensure!(fs::read_to_string(&victim)? == "not to be changed", "a link was followed");
    up.signal(Signal::TERM);
    up.wait(SOON).context("it does not stop")?;
    Ok(seen.to_owned())
}
