//! Attacks by configurations: files that change while they are read, that are none, that never end, or whose text is expensive; and
//! attempts to force, prevent or outlast safe mode.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use cli::status::Report;
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c, in_c_with, in_rust};
use rosemary_tests::developer::rosemary;
use rosemary_tests::http::{API, request};
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::random::Random;
use rosemary_tests::rosemary_binary;
use rosemary_tests::verdicts::Verdicts;
use rustix::fs::{CWD, FileType, mknodat};

use super::beside::{memory_kib, run};

const LIMIT: Duration = Duration::from_secs(500);

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// The longest a refusal may take on a busy machine, in a debug build.
const SHORT: Duration = Duration::from_secs(8);

/// Limit of the monitor's growth by a configuration, in KiB.
const GROWTH: u64 = 96 * 1024;

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

/// Largest configuration, in bytes.
const LONGEST: usize = 1 << 18;

fn pid(status: &Report, app: &str) -> Option<u32> {
    status.app(app).filter(|app| app.state == ProgramState::Running)?.pid
}

/// Starts Rosemary with the learning switch and a flow.
fn start<'lab>(lab: &'lab Lab, config: &[&str]) -> anyhow::Result<Net<'lab>> {
    configure(config)?;
    let net = Net::start(lab, Of::V1_3)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0, "there is a flow");
    Ok(net)
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn hostile_configurations_change_nothing_that_runs() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut net = start(lab, &[SWITCH])?;
        let mut verdicts = Verdicts::default();
        verdicts.beside(
            &mut net,
            "a configuration that changes while it is read, 100 reloads",
            changing,
        );
        verdicts.beside(&mut net, "a configuration of 1 GB", huge);
        verdicts.beside(&mut net, "configurations that are no files", not_files);
        verdicts.beside(&mut net, "texts that are deep or full of mistakes", expensive);
        verdicts.beside(&mut net, "a viewer who checks expensive texts", viewer);
        verdicts.beside(&mut net, "an app's own file that is none", own_files);
        verdicts.beside(&mut net, "escape sequences and forged lines in a configuration", escapes);
        verdicts.beside(&mut net, "100 configurations at once by HTTP", at_once);
        verdicts.finish()
    });
}

/// Writes a configuration that names the learning switch again and again, in parts, while many read it.
fn changing(net: &mut Net<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let observer = in_rust("observer", "stage = \"observe\"");
    let texts = [
        SWITCH.to_owned(),
        format!("{SWITCH}{observer}"),
        format!("{SWITCH}{}", "# x\n".repeat(100_000)),
    ];
    let is_over = AtomicBool::new(false);
    let mut codes = std::collections::BTreeMap::<_, usize>::new();
    thread::scope(|scope| -> anyhow::Result<()> {
        scope.spawn(|| {
            let mut random = Random::from(3);
            while !is_over.load(Ordering::Relaxed) {
                let text = &texts[usize::try_from(random.bits() % 3).unwrap_or(0)];
                // The name of the switch is there in every part of the time.
                let cut =
                    SWITCH.len() + random.bytes(1)[0] as usize % (text.len() - SWITCH.len() + 1);
                let _ = fs::write("/etc/rosemary/new", &text[..cut])
                    .and_then(|()| fs::rename("/etc/rosemary/new", CONFIG));
                thread::sleep(Duration::from_millis(3));
                let file = fs::OpenOptions::new().append(true).open(CONFIG);
                let _ = file.and_then(|mut file| {
                    std::io::Write::write_all(&mut file, &text.as_bytes()[cut..])
                });
                thread::sleep(Duration::from_millis(3));
            }
        });
        let reload = || -> anyhow::Result<std::process::Child> {
            let mut command = lab.command(rosemary_binary());
            command.arg("reload").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            Ok(command.spawn()?)
        };
        let outcome = (0..5).try_for_each(|_| {
            let children = (0..20).map(|_| reload()).collect::<anyhow::Result<Vec<_>>>()?;
            for child in children {
                let output = child.wait_with_output()?;
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                ensure!(!said.contains("panicked") && output.status.code().is_some(), "{said}");
                *codes.entry(output.status.code()).or_default() += 1;
            }
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        outcome
    })?;
    configure(&[SWITCH])?;
    good_again(net)?;
    Ok(format!("exit codes {codes:?}"))
}

/// The good configuration is accepted at once, and only the learning switch runs.
fn good_again(net: &mut Net<'_>) -> anyhow::Result<()> {
    let _ = fs::remove_file(CONFIG);
    configure(&[SWITCH])?;
    let lab = net.lab;
    lab.wait_for("the good configuration is in force", SOON * 2, |evidence| {
        let (code, said) = run(lab, &["reload"]).unwrap_or_default();
        evidence.0 = said;
        Ok((code == Some(0)).then_some(()))
    })?;
    net.rosemary.wait_for("only the learning switch runs", SOON, |status| {
        (pid(status, APP).is_some() && status.programs.apps.len() == 1).then_some(())
    })?;
    Ok(())
}

/// A reload that has to be refused in time. Returns what it said.
fn refused(net: &mut Net<'_>) -> anyhow::Result<String> {
    let before = net.status()?;
    let begin = Instant::now();
    let (code, said) = run(net.lab, &["reload"])?;
    let took = begin.elapsed();
    ensure!(
        matches!(code, Some(1 | 78)),
        "{code:?} {}",
        said.chars().take(300).collect::<String>()
    );
    ensure!(took < SHORT, "a refusal took {took:?}");
    ensure!(!said.contains("panicked"), "{said}");
    let after = net.status()?;
    ensure!(pid(&after, APP) == pid(&before, APP), "the learning switch was restarted");
    Ok(said)
}

fn monitor_kib(net: &mut Net<'_>) -> anyhow::Result<u64> {
    memory_kib(net.status()?.programs.monitor.pid)
}

fn huge(net: &mut Net<'_>) -> anyhow::Result<String> {
    let before = monitor_kib(net)?;
    let file = fs::OpenOptions::new().append(true).open(CONFIG)?;
    file.set_len(1 << 30)?;
    let said = refused(net)?;
    ensure!(said.contains("longer than"), "{said}");
    let text = format!("{SWITCH}#{}", "x".repeat(1 << 28));
    fs::write(CONFIG, text)?;
    refused(net)?;
    let grown = monitor_kib(net)?.saturating_sub(before);
    ensure!(grown < GROWTH, "the monitor grew by {grown} KiB");
    good_again(net)?;
    Ok(format!("refused, the monitor grew by {grown} KiB"))
}

/// Puts something other than a file at a path.
type Make = Box<dyn Fn(&Path) -> std::io::Result<()>>;

/// Things other than files.
fn odd_things() -> Vec<(&'static str, Make)> {
    let link = |to: &'static str| -> Make { Box::new(move |path| symlink(to, path)) };
    vec![
        ("pipe", Box::new(|path: &Path| Ok(mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0)?))),
        ("directory", Box::new(|path: &Path| fs::create_dir(path))),
        ("loop", Box::new(|path: &Path| symlink(path, path))),
        ("socket", Box::new(|path: &Path| std::os::unix::net::UnixListener::bind(path).map(drop))),
        ("zeros", link("/dev/zero")),
        ("random", link("/dev/urandom")),
        ("terminal", link("/dev/tty")),
        ("memory", link("/proc/self/mem")),
        ("messages", link("/proc/kmsg")),
        ("full", link("/dev/full")),
        ("nothing", link("/nowhere")),
    ]
}

fn not_files(net: &mut Net<'_>) -> anyhow::Result<String> {
    let things = odd_things();
    for (kind, make) in &things {
        fs::remove_file(CONFIG)?;
        make(Path::new(CONFIG))?;
        let outcome = refused(net).with_context(|| (*kind).to_owned());
        let _ = fs::remove_file(CONFIG).or_else(|_| fs::remove_dir(CONFIG));
        outcome?;
        configure(&[SWITCH])?;
    }
    good_again(net)?;
    Ok(format!("{} refused", things.len()))
}

/// Texts of the largest size that cost much time or depth to read.
fn expensive_texts() -> Vec<(&'static str, String)> {
    let deep = vec!["a"; LONGEST / 3].join(".");
    let filled = |part: &str| part.repeat(LONGEST / part.len());
    let many = |line: &dyn Fn(usize) -> String| (0..15_000).map(line).collect::<String>();
    vec![
        ("deep arrays", format!("a = {}", "[".repeat(LONGEST - 8))),
        (
            "deep tables",
            format!("a = {}", filled("{a=").chars().take(LONGEST - 8).collect::<String>()),
        ),
        ("a deep key", format!("{deep} = 1\n")),
        ("a deep header", format!("[{deep}]\n")),
        (
            "deep headers",
            (0..480).map(|depth| ["[a", &".a".repeat(depth), "]\n"].concat()).collect(),
        ),
        ("a mistake in each line", filled("=\n")),
        ("mistakes in one line", filled("= ")),
        ("open strings", filled("\"\n")),
        ("the same key", filled("a=1\n")),
        ("unknown keys", many(&|number| format!("key{number} = 1\n"))),
        (
            "unknown keys of an app",
            format!("[[app]]\nname = \"x\"\n{}", many(&|number| format!("key{number} = 1\n"))),
        ),
        ("a long key", format!("\"{}\" = 1\n", "x".repeat(LONGEST - 16))),
        ("a long name", format!("[[app]]\nname = \"{}\"\n", "x".repeat(LONGEST - 32))),
        (
            "many apps",
            many(&|number| format!("[[app]]\nname=\"a{number}\"\n"))
                .chars()
                .take(LONGEST)
                .collect(),
        ),
        ("many capabilities", format!("{SWITCH}capabilities = [{}]\n", "\"zzzz\",".repeat(30_000))),
        ("many addresses", format!("[controller]\nlisten = [{}]\n", "\"1\",".repeat(50_000))),
        ("escapes", format!("a = \"{}\"\n", "\\u0000".repeat(40_000))),
    ]
}

fn expensive(net: &mut Net<'_>) -> anyhow::Result<String> {
    let before = monitor_kib(net)?;
    let mut slowest = (Duration::ZERO, "");
    let texts = expensive_texts();
    for (name, text) in &texts {
        ensure!(text.len() <= LONGEST, "{name} has {} bytes", text.len());
        fs::write(CONFIG, text)?;
        let begin = Instant::now();
        let said = refused(net).with_context(|| (*name).to_owned())?;
        slowest = slowest.max((begin.elapsed(), name));
        ensure!(said.len() < 200_000, "{name}: {} bytes were said", said.len());
    }
    good_again(net)?;
    let grown = monitor_kib(net)?.saturating_sub(before);
    ensure!(grown < 4 * GROWTH, "the monitor grew by {grown} KiB");
    Ok(format!(
        "{} refused, the slowest ({}) in {:.1?}; the monitor has {grown} KiB more",
        texts.len(),
        slowest.1,
        slowest.0
    ))
}

/// A viewer sends expensive texts for a check, many at once. An operator is served beside that.
fn viewer(net: &mut Net<'_>) -> anyhow::Result<String> {
    let token = rosemary(net.lab, &["token", "create", "--role", "viewer", "--name", "looks"])?;
    let bearer = format!("Bearer {}", token.trim());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/toml")];
    let texts: Vec<String> = expensive_texts().into_iter().map(|(_, text)| text).collect();
    let (mut times, is_over) = (Vec::new(), AtomicBool::new(false));
    let statuses =
        thread::scope(|scope| -> anyhow::Result<std::collections::BTreeMap<u16, usize>> {
            let (headers, is_over) = (&headers, &is_over);
            let send = |text: &String| {
                let answer = request("POST", "/api/v1/config/validate", headers, text.as_bytes());
                answer.map_or(0, |answer| answer.status)
            };
            let flood = |texts: Vec<String>| move || texts.iter().map(send).collect::<Vec<_>>();
            let floods: Vec<_> = (0..3).map(|_| scope.spawn(flood(texts.clone()))).collect();
            let watching = scope.spawn(move || {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    let status =
                        request("GET", "/api/v1/apps", &[], b"").map(|answer| answer.status);
                    times.push((begin.elapsed(), status.unwrap_or(0)));
                    thread::sleep(Duration::from_millis(50));
                }
                times
            });
            let mut statuses = std::collections::BTreeMap::new();
            for flood in floods {
                for status in flood.join().ok().context("a thread panicked")? {
                    *statuses.entry(status).or_default() += 1;
                }
            }
            is_over.store(true, Ordering::Relaxed);
            times = watching.join().ok().context("a thread panicked")?;
            Ok(statuses)
        })?;
    let slowest = times.iter().map(|it| it.0).max().unwrap_or_default();
    ensure!(
        times.iter().all(|(_, status)| *status == 200),
        "an operator was not served: {times:?}"
    );
    ensure!(slowest < Duration::from_secs(5), "an operator waited for {slowest:?}");
    ensure!(
        statuses.keys().all(|status| [200, 408, 413, 429, 503].contains(status)),
        "{statuses:?}"
    );
    good_again(net)?;
    Ok(format!(
        "answers {statuses:?}, {} answers to an operator in at most {slowest:.0?}",
        times.len()
    ))
}

/// The app's own configuration, its object and the files that it may read are no files.
fn own_files(net: &mut Net<'_>) -> anyhow::Result<String> {
    let path = Path::new("/etc/rosemary/own");
    let things = odd_things();
    for (kind, make) in &things {
        make(path)?;
        for key in [
            "config = \"own\"",
            "object = \"own\"\nstage = \"observe\"",
            "object = \"own\"\nstage = \"observe\"\nhost = \"ryu\"",
        ] {
            let app = format!("[[app]]\nname = \"x\"\n{key}\n");
            let app = if key.starts_with("config") {
                in_rust("observer", "stage = \"observe\"\nconfig = \"own\"")
            } else {
                app
            };
            configure(&[SWITCH, &app])?;
            refused(net).with_context(|| format!("{kind}: {key}"))?;
        }
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
    }
    good_again(net)?;
    Ok(format!("{} refused", things.len() * 3))
}

/// Escape sequences of a terminal and line breaks reach neither the operator's terminal nor the log as they are.
fn escapes(net: &mut Net<'_>) -> anyhow::Result<String> {
    let forged = "2026-01-01T00:00:00Z ERROR forged: the firewall denied nothing";
    let evil = format!("\\u001b]0;owned\\u0007\\u001b[2J\\r\\n{forged}\\u009b2J\\u202e");
    let raw = "\u{1b}[2J\u{9b}2J";
    let places = [
        format!("\"{evil}\" = 1\n"),
        format!("[controller]\n\"{evil}\" = 1\n"),
        format!("[[app]]\nname = \"{evil}\"\n"),
        format!("{SWITCH}[[app]]\nname = \"x\"\nobject = \"/{}\"\n", evil.replace("\\u0000", "")),
        format!("[controller]\nlisten = [\"{evil}\"]\n"),
        format!("[[trust]]\nname = \"{evil}\"\nkey = \"{evil}\"\n"),
        format!("{SWITCH}[[app]]\nname = \"x\"\nconfig = \"{evil}\"\n"),
        format!("{raw}\n{SWITCH}"),
        format!("# fine\n= {raw}\n"),
    ];
    for (number, text) in places.iter().enumerate() {
        fs::write(CONFIG, text)?;
        let said = refused(net)?;
        let bad = said.chars().find(|it| it.is_control() && *it != '\n' || *it == '\u{202e}');
        ensure!(bad.is_none(), "text {number}: {bad:?} reached the terminal: {said:?}");
        ensure!(
            !said.lines().any(|line| line.starts_with("2026-01-01")),
            "text {number}: a forged line: {said}"
        );
    }
    let log = net.rosemary.log();
    ensure!(!log.contains('\u{1b}') && !log.contains('\u{9b}'), "an escape sequence is in the log");
    ensure!(!log.lines().any(|line| line.starts_with("2026-01-01")), "a forged line is in the log");
    let (_, audit) = run(net.lab, &["logs", "audit"])?;
    ensure!(!audit.lines().any(|line| line.starts_with("2026-01-01")), "a forged audit record");
    good_again(net)?;
    Ok(format!("{} texts refused without a raw character", places.len()))
}

/// Many clients apply configurations at the same time: one wins each round, and the file is always whole.
fn at_once(net: &mut Net<'_>) -> anyhow::Result<String> {
    let observer = in_rust("observer", "stage = \"observe\"");
    let texts =
        [SWITCH.to_owned(), format!("{SWITCH}{observer}"), "= = =".into(), "a = [".repeat(1000)];
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for _ in 0..4 {
        let tag = request("GET", "/api/v1/config", &[], b"")?;
        let tag = tag.header("etag").context("a tag")?.to_owned();
        let sending: Vec<_> = (0..25)
            .map(|number| {
                let (text, tag) = (texts[number % texts.len()].clone(), tag.clone());
                thread::spawn(move || {
                    let headers = [
                        ("If-Match", tag.as_str()),
                        ("Content-Type", "application/toml"),
                        ("Host", API),
                    ];
                    request("PUT", "/api/v1/config?wait=20", &headers, text.as_bytes())
                        .map_or(0, |it| it.status)
                })
            })
            .collect();
        for thread in sending {
            *statuses.entry(thread.join().ok().context("a thread panicked")?).or_default() += 1;
        }
        let file = fs::read_to_string(CONFIG)?;
        ensure!(texts[..2].contains(&file), "the file is {file:?}");
    }
    ensure!(statuses.get(&200).copied().unwrap_or(0) >= 1, "{statuses:?}");
    ensure!(
        statuses.keys().all(|status| [200, 202, 400, 409, 412, 429, 503].contains(status)),
        "{statuses:?}"
    );
    good_again(net)?;
    Ok(format!("answers {statuses:?}"))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn safe_mode_is_neither_forced_nor_prevented() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let rules = "[safe-mode]\nkernel-restarts = 2\nhealth-seconds = 0.5\n";
        let crashing = in_c(lab, "timebomb", "apps/timebomb.c", "stage = \"observe\"")?;
        let crasher = in_c_with(
            lab,
            "crasher",
            "apps/crasher.c",
            "stage = \"observe\"",
            &["-DWAITS=0", "-DEXITS=0"],
        )?;
        let mut net = start(lab, &[rules, &crashing, &crasher, SWITCH])?;
        let mut verdicts = Verdicts::default();
        verdicts.beside(&mut net, "an app that ends again and again", |net| app_ends(net));
        verdicts.beside(&mut net, "clients that may not leave safe mode or stop apps", |net| {
            clients(net)
        });
        verdicts.judge("an app that ends the kernel again and again", kernel_ends(lab, &mut net));
        verdicts.finish()
    });
}

/// The end of an app is no reason for safe mode.
fn app_ends(net: &mut Net<'_>) -> anyhow::Result<String> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut kills = 0;
    while Instant::now() < end {
        let status = net.status()?;
        ensure!(status.programs.safe_mode.is_none(), "safe mode began");
        for app in ["timebomb", "crasher"] {
            if let Some(pid) = pid(&status, app) {
                kills += usize::from(rosemary_tests::kill(pid).is_ok());
            }
        }
        net.lab.pause(INTERVAL * 5)?;
    }
    ensure!(kills > 3, "{kills} kills");
    Ok(format!("{kills} ends of apps, no safe mode"))
}

/// A viewer and an operator cannot leave safe mode. No client can begin it by HTTP.
fn clients(net: &mut Net<'_>) -> anyhow::Result<String> {
    let mut seen = Vec::new();
    for role in ["viewer", "operator"] {
        let token = rosemary(net.lab, &["token", "create", "--role", role, "--name", role])?;
        let bearer = format!("Bearer {}", token.trim());
        for (method, path) in [
            ("DELETE", "/api/v1/safe-mode"),
            ("POST", "/api/v1/safe-mode"),
            ("PUT", "/api/v1/safe-mode"),
            ("POST", "/api/v1/reload"),
            ("DELETE", "/api/v1/tokens/viewer"),
        ] {
            let answer = request(method, path, &[("Authorization", &bearer)], b"")?;
            ensure!(
                [403, 404, 405].contains(&answer.status),
                "{role} {method} {path}: {}",
                answer.status
            );
            seen.push(answer.status);
        }
    }
    ensure!(net.status()?.programs.safe_mode.is_none(), "safe mode began");
    // Wrong tokens lock no operator out.
    for number in 0..300 {
        let bearer = format!("Bearer wrong{number}");
        let answer = request("DELETE", "/api/v1/safe-mode", &[("Authorization", &bearer)], b"")?;
        ensure!([401, 429].contains(&answer.status), "{}", answer.status);
    }
    // All requests are of one user, whose rate is limited.
    net.lab.wait_for("the operator is served again", SOON, |_| {
        let answer = request("GET", "/api/v1/apps", &[], b"");
        Ok(answer.ok().filter(|it| it.status == 200).map(drop))
    })?;
    Ok(format!("{} requests refused", seen.len() + 300))
}

/// The kernel ends again and again. The operator is served before, in and after safe mode, and the culprit stays out.
fn kernel_ends(lab: &Lab, net: &mut Net<'_>) -> anyhow::Result<String> {
    let end = Instant::now() + SOON * 6;
    let mut kills = 0;
    while net.status()?.programs.safe_mode.is_none() {
        ensure!(Instant::now() < end, "no safe mode after {kills} ends of the kernel");
        if let Some(pid) = net.status()?.programs.kernel.pid {
            kills += usize::from(rosemary_tests::kill(pid).is_ok());
        }
        lab.pause(INTERVAL * 10)?;
    }
    let before = fs::read(CONFIG)?;
    let begin = Instant::now();
    for args in [
        &["status"][..],
        &["safe-mode", "status"],
        &["incidents"],
        &["logs", "audit"],
        &["app", "disable", "timebomb"],
    ] {
        let (code, said) = run(lab, args)?;
        let is_refused = args.contains(&"disable") && said.contains("safe-mode exit");
        ensure!(matches!(code, Some(0 | 3)) || is_refused, "{args:?}: {code:?} {said}");
    }
    ensure!(begin.elapsed() < SOON, "the operator waited for {:?}", begin.elapsed());
    net.rosemary.wait_for("safe mode has started its apps", SOON * 6, |status| {
        status.programs.safe_mode.as_ref().filter(|it| it.complete).map(drop)
    })?;
    let (code, said) = run(lab, &["safe-mode", "exit", "--yes"])?;
    ensure!(code == Some(0), "{said}");
    net.rosemary.wait_for("safe mode is over", SOON * 3, |status| {
        (status.programs.safe_mode.is_none() && pid(status, APP).is_some()).then_some(())
    })?;
    ensure!(fs::read(CONFIG)? == before, "the configuration changed");
    Ok(format!("safe mode after {kills} ends of the kernel, and left by the operator"))
}
