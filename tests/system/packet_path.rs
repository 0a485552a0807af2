//! Compares the frames of `docs/packet-in.md` with those of a running Rosemary, which gdb stops where a packet-in is written into the
//! ring, where the app's message is, and where the message is appended to a switch's output.
//!
//! `UPDATE_DOCS=1` writes the page's list.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::capture::is_installed;
use rosemary_tests::emulated::Emulated;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary, skip};

/// Time limit of the test: gdb reads the symbols of two programs.
const LIMIT: Duration = Duration::from_secs(120);

/// Interval of packet-ins while gdb waits for one.
const INTERVAL: Duration = Duration::from_millis(20);

/// A part of the path.
struct Part {
    title: &'static str,
    program: &'static str,
    /// The first function that counts.
    from: &'static str,
    /// A part of the mangled name of the last function.
    to: &'static str,
    /// Most functions.
    depth: usize,
}

const PARTS: [Part; 3] = [
    Part {
        title: "In: from the worker's loop to the up ring",
        program: "rosemary-kernel",
        from: "run",
        to: "8app_port7packets9write_run17h",
        depth: 12,
    },
    Part {
        title: "Zone: from its loop through the app to the down ring",
        program: "rosemary-zone",
        from: "turn",
        to: "8outgoing8Outgoing6commit17h",
        depth: 17,
    },
    Part {
        title: "Out: from the worker's loop to the switch's output",
        program: "rosemary-kernel",
        from: "run",
        to: "7sending7Sending14append_pending17h",
        depth: 11,
    },
];

/// The lines around the list in the page.
const BEGIN: &str = "<!-- frames -->\n";
const END: &str = "<!-- end of frames -->\n";

#[test]
fn frames_are_those_of_the_page() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        for program in ["gdb", "nm"] {
            if !is_installed(program) {
                skip(&anyhow::anyhow!("{program} is not installed"));
                return Ok(());
            }
        }
        configure(&[&in_rust("ordinary", "")])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let kernel = rosemary.wait_for("the kernel runs", SOON, |it| it.programs.kernel.pid)?;
        let zone = rosemary.wait_for("the app runs", SOON, |it| it.app("ordinary")?.pid)?;
        let (mut list, mut files) = (String::new(), BTreeSet::new());
        for part in &PARTS {
            let pid = if part.program == "rosemary-zone" { zone } else { kernel };
            let frames = frames(lab, part, pid)?;
            writeln!(list, "\n{}:\n\n```text", part.title)?;
            for (number, Frame { function, file }) in frames.iter().enumerate() {
                writeln!(list, "{:>2}  {function:<18}  {file}", number + 1)?;
                files.insert(file.clone());
            }
            writeln!(list, "```")?;
            ensure!(
                frames.len() <= part.depth,
                "{}: {} functions, at most {} are expected",
                part.title,
                frames.len(),
                part.depth
            );
        }
        writeln!(list, "\nThese are {} files.\n", files.len())?;
        compare(&list)
    });
}

fn compare(list: &str) -> anyhow::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/packet-in.md");
    let text = fs::read_to_string(&page)?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no list of frames")?;
    let (present, after) = rest.split_once(END).context("the page's list of frames has no end")?;
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{before}{BEGIN}{list}{END}{after}"))?;
        return Ok(());
    }
    ensure!(
        present == list,
        "docs/packet-in.md differs; run this test with UPDATE_DOCS=1. The frames are now:\n{list}"
    );
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Frame {
    function: String,
    file: String,
}

/// Stops the process `pid` where the part ends, while a switch sends packet-ins. Returns the part's functions, outermost first.
fn frames(lab: &Lab, part: &Part, pid: u32) -> anyhow::Result<Vec<Frame>> {
    let program = rosemary_binary().with_file_name(part.program);
    let symbols = symbols(&program, part.to)?;
    let mut switch = Emulated::connect(1)?;
    let is_over = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            // The destination sends first, so that the app installs a flow for each later packet.
            let (there, back) = (frame(1, 2), frame(2, 1));
            while !is_over.load(Ordering::Relaxed) {
                if switch.packet_in(&there).and_then(|()| switch.packet_in(&back)).is_err() {
                    return; // gdb's output has no frames then
                }
                thread::sleep(INTERVAL);
            }
        });
        // The symbols are read before the process is stopped: it is stopped for a moment only.
        let mut gdb = lab.command("timeout");
        gdb.args(["30", "gdb", "-batch", "-nx", "-ex", "set pagination off", "-ex"]);
        gdb.arg(format!("attach {pid}"));
        for symbol in symbols {
            gdb.arg("-ex").arg(format!("break {symbol}"));
        }
        gdb.args(["-ex", "continue", "-ex", "backtrace", "-ex", "delete", "-ex", "detach"]);
        let output = gdb.arg(&program).output();
        is_over.store(true, Ordering::Relaxed);
        output
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut frames: Vec<_> = text.lines().filter_map(read).collect();
    frames.reverse();
    let first = frames.iter().rposition(|frame| frame.function == part.from);
    let first = first.with_context(|| format!("{} is not in {text}", part.from))?;
    Ok(frames.split_off(first))
}

fn frame(to: u8, from: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5][..], &[0; 50]].concat()
}

/// Finds the mangled names that contain `part`: one for each type of a generic function.
fn symbols(program: &Path, part: &str) -> anyhow::Result<Vec<String>> {
    let output = Command::new("nm").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split(' ').nth(2));
    let names: Vec<_> = names.filter(|name| name.contains(part)).map(str::to_owned).collect();
    ensure!(!names.is_empty(), "no function of {} is {part}", program.display());
    Ok(names)
}

/// Reads a line such as `#3  0x0055 in name<T> (...) at crates/kernel/src/worker/mod.rs:88`. Returns `None` for others, for closures
/// and for functions of libraries.
fn read(line: &str) -> Option<Frame> {
    let rest = line.strip_prefix('#')?;
    let (call, place) = rest.rsplit_once(" at ")?;
    let (file, _) = place.rsplit_once(':')?;
    let file =
        ["crates/", "experiments/"].iter().find_map(|root| Some(&file[file.find(root)?..]))?;
    let (_, call) = call.split_once(' ')?;
    let name = call.trim_start();
    let name =
        name.split_once(" in ").filter(|_| name.starts_with("0x")).map_or(name, |(_, name)| name);
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    let name =
        name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name);
    let name = without_parameters(name);
    let function = name.rsplit("::").next()?;
    (!function.contains("closure"))
        .then(|| Frame { function: function.to_owned(), file: file.to_owned() })
}

/// Leaves out what is in angle brackets.
fn without_parameters(name: &str) -> String {
    let mut depth = 0_usize;
    name.chars()
        .filter(|letter| {
            depth += usize::from(*letter == '<');
            let is_outside = depth == 0;
            depth = depth.saturating_sub(usize::from(*letter == '>'));
            is_outside
        })
        .collect()
}

#[test]
fn lines_of_a_backtrace_are_read() {
    let frame = |function: &str, file: &str| Frame { function: function.into(), file: file.into() };
    let line = "#3  0x00005598e50e81ce in rosemary_kernel::worker::apps::<impl rosemary_kernel::worker::Worker>::serve_apps::h7a5d6a9f56999771 () at crates/kernel/src/worker/apps.rs:70";
    assert_eq!(read(line), Some(frame("serve_apps", "crates/kernel/src/worker/apps.rs")));
    let line = "#0  commit_with<a::B<c::D>> () at /build/crates/sys/src/ring/zone_end.rs:257";
    assert_eq!(read(line), Some(frame("commit_with", "crates/sys/src/ring/zone_end.rs")));
    assert_eq!(
        read(
            "#4  0x00aa in rosemary_kernel::worker::Worker::flush::{{closure}}::h828e0ac790f9582a () at crates/kernel/src/worker/connections.rs:9"
        ),
        None
    );
    assert_eq!(read("#5  0x00aa in epoll_wait () from /lib/libc.so.6"), None);
}
