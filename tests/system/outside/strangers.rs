//! Files of strangers that an operator gives to the runner of Ryu's apps: commands read them within bounds, and their lines run in a zone only.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cli::lab::{Lab, processes};
use rosemary_tests::net::SOON;
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, kill, rosemary_binary};
use rustix::fs::{CWD, FileType, mknodat};
use rustix::process::Signal;

use super::beside::{memory_kib, raw_characters};

const LIMIT: Duration = Duration::from_secs(500);

/// The directory of a stranger's files.
const STRANGE: &str = "/etc/rosemary/strange";

/// A configuration with the stranger's app.
const CONFIG: &str = "/etc/rosemary/strange.toml";

/// The longest time of a command that reads a file, and of a command that also loads it, on a busy machine.
const READING: Duration = Duration::from_secs(60);
const LOADING: Duration = Duration::from_secs(60);

/// The time after which a command that runs an app is ended.
const RUNNING: Duration = Duration::from_secs(5);

/// The most memory of a command and its children, in KiB.
const LARGEST: u64 = 1300 * 1024;

/// A way to read a stranger's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Check,
    Print,
    UpCheck,
    Run,
}

const ALL: [By; 4] = [By::Check, By::Print, By::UpCheck, By::Run];

/// The end of a command.
#[derive(Debug)]
struct Ended {
    /// `None` if it still ran, and was ended by the test.
    code: Option<i32>,
    said: String,
    took: Duration,
    /// In KiB.
    memory: u64,
}

impl Ended {
    /// Whether the command failed, and names this.
    fn is_refused(&self, name: &str) -> bool {
        self.code.is_some_and(|code| code != 0) && self.said.contains(name)
    }
}

/// Gives a stranger's file to a command, which runs in the directory of the file. `more` precedes the file.
fn given(lab: &Lab, by: By, file: &str, more: &[&str]) -> anyhow::Result<Ended> {
    let before: &[&str] = match by {
        By::Check => &["ryu", "check"],
        By::Print => &["ryu", "--print-config"],
        By::UpCheck => &["up", "--check", "--allow-unsigned", "--config", CONFIG],
        By::Run => &["ryu"],
    };
    let mut command = lab.command(rosemary_binary());
    command.args(before).current_dir(STRANGE);
    if by == By::UpCheck {
        let path = if more.is_empty() {
            String::new()
        } else {
            format!("python-path = [\"{STRANGE}\"]\n")
        };
        let entry = "host = \"ryu\"\nstage = \"observe\"\nlimits = { memory = \"128 MiB\" }\n";
        fs::write(
            CONFIG,
            format!(
                "[[app]]\nname = \"strange\"\nobject = {:?}\n{entry}{path}",
                format!("{STRANGE}/{file}")
            ),
        )?;
    } else {
        command.args(more).arg(file);
    }
    // An operator may have set these for other programs.
    for name in ["PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"] {
        command.env(name, STRANGE);
    }
    command
        .env("PYTHONSTARTUP", format!("{STRANGE}/json.py"))
        .env("PYTHONWARNINGS", "error::json.Warning");
    let mut child = lab.start("strange", command)?;
    let (begin, mut memory) = (Instant::now(), 0);
    let limit = if matches!(by, By::Check | By::Print) { READING } else { LOADING };
    let code = loop {
        if let Some(status) = child.ended() {
            break Some(
                status
                    .code()
                    .with_context(|| format!("{by:?} {file}: {status}: {}", child.stderr()))?,
            );
        }
        let tree = processes::tree(child.pid());
        let now = tree.iter().filter_map(|it| memory_kib(it.pid).ok()).sum();
        memory = memory.max(now);
        let took = begin.elapsed();
        if by == By::Run && took > RUNNING {
            child.signal(Signal::TERM);
            child.wait(SOON).context("it does not stop")?;
            break None;
        }
        if now > LARGEST || took > limit {
            for it in &tree {
                let _ = kill(it.pid); // it may have ended
            }
            bail!("{by:?} {file}: {now} KiB after {took:.1?}: {}", child.stderr());
        }
        thread::sleep(Duration::from_millis(10));
    };
    let said = child.stdout() + &child.stderr();
    let ended = Ended { code, said, took: begin.elapsed(), memory };
    let is_known = code.is_none_or(|code| [0, 1, 2, 78].contains(&code));
    ensure!(is_known && !ended.said.contains("panicked at"), "{by:?} {file}: {ended:?}");
    // Behind `Run` an app has its own log, with the tracebacks of its own errors.
    let is_own = by != By::Run && ended.said.contains("Traceback (most recent call last)");
    ensure!(!is_own, "{by:?} {file}: {ended:?}");
    ensure!(
        raw_characters(&ended.said).is_none(),
        "{by:?} {file}: {:?}",
        raw_characters(&ended.said)
    );
    Ok(ended)
}

/// Figures of several commands, and their failures.
#[derive(Debug, Default)]
struct Figures {
    count: usize,
    slowest: Duration,
    largest: u64,
    failed: Vec<String>,
}

impl Figures {
    /// Adds the end of a command. `is_right` says whether the operator should see this end.
    fn add(
        &mut self,
        what: &str,
        outcome: anyhow::Result<Ended>,
        is_right: impl Fn(&Ended) -> bool,
    ) {
        self.count += 1;
        let failure = match outcome {
            Err(error) => format!("{error:#}"),
            Ok(ended) => {
                let took = if ended.code.is_some() { ended.took } else { Duration::ZERO };
                self.slowest = self.slowest.max(took);
                self.largest = self.largest.max(ended.memory);
                if is_right(&ended) {
                    return;
                }
                format!("{ended:?}")
            }
        };
        self.failed.push(format!("{what}: {failure}").chars().take(500).collect());
    }

    fn said(self) -> anyhow::Result<String> {
        ensure!(self.failed.is_empty(), "{:#?}", self.failed);
        let memory = self.largest >> 10;
        Ok(format!(
            "{} commands, the slowest {:.1?}, at most {memory} MiB",
            self.count, self.slowest
        ))
    }
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn files_of_strangers_run_in_their_zone_only() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        fs::create_dir_all(STRANGE)?;
        let mut verdicts = Verdicts::default();
        verdicts.judge("files of Ryu's apps that are none", not_files(lab));
        verdicts.judge("files of Ryu's apps that are deep, long or no text", texts(lab));
        verdicts.judge("hidden characters in the files and names of Ryu's apps", hidden(lab));
        verdicts.judge("modules of Ryu's apps with the names of others", modules(lab));
        verdicts.judge("checks of apps that load without end", endless(lab));
        verdicts.finish()
    });
}

fn emptied() -> anyhow::Result<PathBuf> {
    fs::remove_dir_all(STRANGE)?;
    fs::create_dir(STRANGE)?;
    Ok(STRANGE.into())
}

/// Puts something at a path.
type Make = Box<dyn Fn(&Path) -> io::Result<()>>;

fn not_files(lab: &Lab) -> anyhow::Result<String> {
    let link = |to: &'static str| move |path: &Path| symlink(to, path);
    let things: [(&str, Make); 8] = [
        ("a pipe", Box::new(|path| Ok(mknodat(CWD, path, FileType::Fifo, 0o666.into(), 0)?))),
        ("a directory", Box::new(|path| fs::create_dir(path))),
        ("a loop", Box::new(link("app.py"))),
        ("a socket", Box::new(|path| UnixListener::bind(path).map(drop))),
        ("zeros", Box::new(link("/dev/zero"))),
        ("noise", Box::new(link("/dev/urandom"))),
        ("a terminal", Box::new(link("/dev/tty"))),
        ("a hole of 1 TiB", Box::new(|path| fs::File::create(path)?.set_len(1 << 40))),
    ];
    let mut figures = Figures::default();
    for (kind, make) in things {
        make(&emptied()?.join("app.py"))?;
        for by in ALL {
            let outcome = given(lab, by, "app.py", &[]);
            // Its start says why Python cannot read a file.
            let is_printed = by == By::Print && kind.starts_with("a hole");
            figures.add(kind, outcome, |ended| is_printed || ended.is_refused("app.py"));
        }
    }
    figures.said()
}

/// Texts that cost much to read, or that Python does not accept.
fn strange_texts() -> Vec<(&'static str, Vec<u8>)> {
    let nested: Vec<String> = (0..95).map(|depth| " ".repeat(depth) + "if x:\n").collect();
    let text = |name, text: String| (name, text.into_bytes());
    vec![
        text("deep signs", format!("x = {}1\n", "-".repeat(100_000))),
        text("less deep signs", format!("x = {}1\n", "-".repeat(1500))),
        text("deep brackets", format!("x = {}1\n", "(".repeat(100_000))),
        text("deep attributes", format!("x = a{}\n", ".a".repeat(100_000))),
        text("deep calls", format!("x = a{}\n", "()".repeat(100_000))),
        text("deep functions", format!("x = {}1\n", "lambda: ".repeat(20_000))),
        text("deep blocks", nested.concat() + &" ".repeat(95) + "pass\n"),
        text("a deep format", format!("x = {}1{}\n", "f'{".repeat(500), "}'".repeat(500))),
        text("a long sum", format!("x = 1{}\n", "+1".repeat(100_000))),
        text("null bytes", "x = 1\n\0\0\n".to_owned()),
        text("a long name", format!("import {}\n", "a".repeat(5000))),
        text("a name of many parts", format!("import a{}\n", ".a".repeat(900))),
        text("a long number", format!("x = {}\n", "9".repeat(100_000))),
        text("half of a character", "x = '\\ud800'\nopen('/\\ud800')\n".to_owned()),
        text("an encoding", "# -*- coding: utf_7 -*-\nx = '+AF8-'\n".to_owned()),
        text(
            "many wild imports",
            format!("{}{}", "from a import *\n".repeat(20_000), "x\n".repeat(100_000)),
        ),
        text("many statements", "a\n".repeat(2_000_000)),
        ("UTF-16", "\u{feff}class A: pass\n".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        (
            "noise",
            (0..100_000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_be_bytes()).collect(),
        ),
    ]
}

fn texts(lab: &Lab) -> anyhow::Result<String> {
    let mut figures = Figures::default();
    for (name, text) in strange_texts() {
        fs::write(emptied()?.join("app.py"), text)?;
        let is_loaded = ["deep signs", "null bytes", "UTF-16", "many statements"].contains(&name);
        for by in &ALL[..if is_loaded { ALL.len() } else { 2 }] {
            let outcome = given(lab, *by, "app.py", &[]);
            let named = if *by == By::UpCheck { "strange" } else { "app" };
            figures.add(name, outcome, |ended| {
                // Python may still read it when the test ends the command.
                *by == By::Print || ended.code.is_none() || ended.is_refused(named)
            });
        }
    }
    figures.said()
}

fn hidden(lab: &Lab) -> anyhow::Result<String> {
    let mut figures = Figures::default();
    let evil = "\\x1b]0;owned\\x07\\x1b[2J\\r\\nforged: nothing is known that would not work\\u202e\\u200b\\x9b2J";
    let texts = [
        format!(
            "import os\nclass A: pass\nopen('/{evil}')\nopen('{evil}')\nos.environ['{evil}']\n"
        ),
        format!("raise ValueError('{evil}')\n"),
        format!(
            "import sys\nprint('{evil}')\nprint('{evil}', file=sys.stderr)\nsys.exit('{evil}')\n"
        ),
        "x = '\u{1b}[2J\u{202e}\nforged: \u{1b}[2J\n".to_owned(),
        "x\u{202e}\u{200b} = 1\n\u{1b}[2J\n".to_owned(),
    ];
    for text in &texts {
        fs::write(emptied()?.join("app.py"), text)?;
        for by in ALL {
            figures.add(text, given(lab, by, "app.py", &[]), |_| true);
        }
    }
    for name in ["a\u{1b}[2Jb.py", "a\u{202e}b.py", "a\nforged.py", "a\u{9b}2J.py"] {
        fs::write(emptied()?.join(name), "import no_such_module\nclass A: pass\n")?;
        for by in [By::Check, By::Print, By::Run] {
            figures.add(&format!("{name:?}"), given(lab, by, name, &[]), |ended| {
                ended.is_refused("a")
            });
        }
    }
    figures.said()
}

/// Leaves a trace wherever it runs outside of a zone: a file, and a line.
const TRACE: &str = "for _path in ('/etc/rosemary/strange/trace', '/etc/rosemary/trace', '/var/lib/rosemary/trace'):\n    \
                     try:\n        open(_path, 'a').write(__name__ + '\\n')\n    except OSError:\n        pass\n\
                     print('RAN', __name__)\n";

/// The names of modules that the programs themselves import, and of files that Python runs by itself.
const NAMES: [&str; 22] = [
    "json",
    "os",
    "sys",
    "ast",
    "argparse",
    "re",
    "pathlib",
    "resource",
    "signal",
    "codecs",
    "site",
    "sitecustomize",
    "usercustomize",
    "rosemary_ryu",
    "rosemary",
    "eventlet",
    "greenlet",
    "os_ken",
    "webob",
    "routes",
    "_native",
    "_boot",
];

fn modules(lab: &Lab) -> anyhow::Result<String> {
    let dir = emptied()?;
    for name in NAMES {
        fs::write(dir.join(format!("{name}.py")), TRACE)?;
    }
    for package in
        ["ryu", "ryu/base", "encodings", "collections", "rosemary_ryu", "os_ken", "asyncio"]
    {
        fs::create_dir_all(dir.join(package))?;
        fs::write(dir.join(package).join("__init__.py"), TRACE)?;
        fs::write(dir.join(package).join("check.py"), TRACE)?;
    }
    fs::write(dir.join("strange.pth"), "import json\n")?;
    fs::write(dir.join("pyvenv.cfg"), format!("home = {STRANGE}\n"))?;
    mknodat(CWD, dir.join("pipe.py"), FileType::Fifo, 0o666.into(), 0)?;
    fs::create_dir(dir.join("within"))?;
    mknodat(CWD, dir.join("within/__init__.py"), FileType::Fifo, 0o666.into(), 0)?;
    symlink("circle.py", dir.join("circle.py"))?;
    symlink("/dev/zero", dir.join("zeros.py"))?;
    symlink(".", dir.join("around"))?;
    fs::File::create(dir.join("hole.py"))?.set_len(1 << 40)?;
    let names = NAMES.join(", ");
    let app = format!(
        "{TRACE}import {names}\nfor _name in 'pipe within circle zeros hole around.around.around.json'.split():\n    \
         try:\n        __import__(_name)\n    except BaseException as error:\n        print(_name, repr(error)[:200])\n\
         if False:\n    import pipe, within, circle, zeros, hole, around.around.around.json, missing\n\
         from ryu.base import app_manager\nclass A(app_manager.RyuApp):\n    pass\n"
    );
    fs::write(dir.join("app.py"), app)?;
    let traces = ["/etc/rosemary/strange/trace", "/etc/rosemary/trace", "/var/lib/rosemary/trace"];
    // The trace works.
    lab.run("python3", &[&format!("{STRANGE}/json.py")])?;
    ensure!(Path::new(traces[0]).exists() && Path::new(traces[1]).exists(), "no trace");
    let forget = || traces.iter().for_each(|it| drop(fs::remove_file(it)));
    forget();
    let (mut figures, mut ran) = (Figures::default(), 0);
    let path = ["--python-path", STRANGE];
    for by in ALL {
        for more in [&[][..], &path] {
            let outcome = given(lab, by, "app.py", more);
            let has_run = outcome.as_ref().is_ok_and(|ended| ended.said.contains("RAN"));
            ran += usize::from(has_run && by == By::Run);
            let left: Vec<_> = traces.iter().filter(|it| Path::new(it).exists()).collect();
            figures.add(&format!("{more:?} {left:?}"), outcome, |_| {
                left.is_empty() && (by == By::Run || !has_run)
            });
            forget();
        }
    }
    ensure!(ran > 0, "it does not run in its zone");
    figures.said()
}

/// Checks of apps that load without end, or that take memory without end while they load.
fn endless(lab: &Lab) -> anyhow::Result<String> {
    let mut figures = Figures::default();
    for (name, text) in [
        ("memory", "x = []\nwhile True:\n    x.append(bytearray(b'x') * (1 << 20))\n"),
        (
            "files",
            "import itertools\nfor number in itertools.count():\n    open(f'/tmp/{number}', 'wb').write(bytes(1 << 20))\n",
        ),
        ("depth", "def f(g):\n    return f(f)\nimport sys\nsys.setrecursionlimit(1 << 30)\nf(f)\n"),
        ("time", "while True:\n    pass\n"),
    ] {
        fs::write(emptied()?.join("app.py"), text)?;
        let outcome = given(lab, By::UpCheck, "app.py", &[]);
        figures
            .add(name, outcome, |ended| ended.code == Some(78) && ended.said.contains("strange"));
    }
    figures.said()
}
