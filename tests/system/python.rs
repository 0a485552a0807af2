//! Apps in Python, each in a zone of its own.

mod attacks;
mod clients;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::developer::{self, Developer};
use rosemary_tests::http::{APP_ROUTES, request_at};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary};
use rustix::fs::FlockOperation;

/// The name of the apps, which their files give them.
const APP: &str = "app";

/// Returns the path of an example of the SDK.
fn example(name: &str) -> String {
    format!("{}/../python/examples/{name}.py", env!("CARGO_MANIFEST_DIR"))
}

/// Writes an app below the lab's own `/etc` and returns its path.
fn written(source: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from("/etc/rosemary/app.py");
    fs::write(&path, source)?;
    Ok(path)
}

over_versions!(learning_switch_in_python, |of| in_a_lab(move |lab| learning_switch(lab, of)));

fn learning_switch(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut net = Net::start_with(lab, of, &["--app", &example("learning_switch")])?;
    let log = net.rosemary.log();
    assert!(log.contains("confined app=\"learning-switch\" program=\"zone\""), "{log}");
    let first = net.h1.ping(&net.h2, 5, INTERVAL)?;
    assert_eq!(first.lost(), 0, "{first:?}");
    for host in [&net.h1, &net.h2] {
        let flows = net.flows_to(host)?;
        assert_eq!(flows.len(), 1, "to {}: {flows:#?}", host.name());
    }
    // Restarted, it receives the snapshot, and goes on.
    let status = net.status()?;
    let pid = status.app("learning-switch").and_then(|app| app.pid).context("it runs")?;
    kill(pid)?;
    net.rosemary.wait_for("the app is back", SOON, |status| {
        status.app("learning-switch")?.pid.filter(|new| *new != pid)
    })?;
    let other = net.h1.ping(&net.h3, 5, INTERVAL)?;
    assert!(other.lost() <= 1, "{other:?}");
    let after = net.switch_status()?;
    assert_eq!(after.refused, 0, "{after:?}");
    Ok(())
}

#[test]
fn traceback_of_an_app_is_in_its_log() {
    in_a_lab(|lab| {
        let source = "import rosemary\n\
                      class Broken(rosemary.App):\n    \
                      def on_switch_up(self, event, network):\n        \
                      print('a printed line')\n        \
                      raise KeyError('nothing here')\n";
        let app = written(source)?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--app", &app.to_string_lossy()])?;
        let path = format!("File \\\"{}\\\", line 5, in on_switch_up", app.display());
        net.rosemary.wait_for_log(&[APP, &path], SOON)?;
        net.rosemary.wait_for_log(&[APP, "raise KeyError("], SOON)?;
        net.rosemary.wait_for_log(&["a printed line"], SOON)?;
        net.rosemary.wait_for_log(&["the app raised KeyError: 'nothing here'"], SOON)?;
        Ok(())
    });
}

/// Calls of an app that its zone refuses, with a part of the line about each in the app's own log.
const REFUSED: [(&str, &str); 5] = [
    ("open('/var/log/x', 'w')", "openat of \"/var/log/x\": an app can write only below /tmp"),
    ("socket.socket()", "apps in Rust, C and Python connect through the broker"),
    ("socket.socketpair()", "asyncio needs a pair of them"),
    ("os.system('true')", "an app starts no programs"),
    ("os.symlink('/x', '/tmp/x')", "only plain files and directories"),
];

#[test]
fn refused_calls_are_in_the_log_of_the_app_with_remedies() {
    in_a_lab(|lab| {
        let calls: Vec<_> = REFUSED.iter().map(|(call, _)| format!("lambda: {call}")).collect();
        let source = format!(
            "import os, socket, rosemary\n\
             for call in [{}]:\n    \
             try:\n        \
             call()\n    \
             except PermissionError:\n        \
             pass\n\
             class Reaching(rosemary.App):\n    \
             pass\n",
            calls.join(", ")
        );
        let app = written(&source)?;
        let net = Net::start_with(lab, Of::V1_3, &["--app", &app.to_string_lossy()])?;
        let rosemary = rosemary_binary().display().to_string();
        for (call, part) in REFUSED {
            lab.wait_for(format!("the app's log says {part}"), SOON, |evidence| {
                evidence.0 = lab.run(&rosemary, &["app", "logs", APP])?;
                let is_it = |line: &str| line.contains(part) && line.contains("WARN");
                Ok(evidence.0.lines().any(is_it).then_some(()))
            })
            .with_context(|| call)?;
        }
        // The monitor's own line has all arguments.
        let words = ["refused a system call", "call=\"socket\"", "arguments=\"0x2 ", "remedy=\""];
        assert!(net.rosemary.log().lines().any(|line| words.iter().all(|it| line.contains(it))));
        Ok(())
    });
}

/// Uses files in `/tmp`, which is the working directory, as ordinary programs do.
const WITH_FILES: &str = "import fcntl, logging.handlers, os, rosemary, shutil, sqlite3, tempfile
def relative():
    with open('stats.csv', 'w') as file:
        file.write('1,2')
    return os.getcwd() == '/tmp' and open('/tmp/stats.csv').read() == '1,2'
def rotating():
    handler = logging.handlers.RotatingFileHandler('app.log', maxBytes=40, backupCount=2)
    for number in range(4):
        handler.emit(logging.LogRecord('x', 20, 'x', 1, 'a line of some length', None, None))
    return sorted(it for it in os.listdir() if it.startswith('app.log')) == ['app.log', 'app.log.1', 'app.log.2']
def copying():
    with open('from', 'w') as file:
        file.write('text')
    os.chmod('from', 0o640)
    os.utime('from', (1, 2))
    for number, copy in enumerate([shutil.copy, shutil.copy2, shutil.copyfile]):
        copy('from', f'to{number}')
    modes = [os.stat(f'to{number}').st_mode & 0o777 for number in range(2)]
    return modes == [0o640, 0o640] and os.stat('to1').st_mtime == 2 and open('to2').read() == 'text'
def database():
    counts = []
    for mode in ['delete', 'wal']:
        both = [sqlite3.connect('/tmp/data.db') for _ in range(2)]
        both[0].execute(f'pragma journal_mode={mode}')
        both[0].execute('create table if not exists seen (mac text)')
        for number in range(20):
            with both[number % 2] as connection:
                connection.execute('insert into seen values (?)', (str(number),))
        counts += [it.execute('select count(*) from seen').fetchone()[0] for it in both]
        for connection in both:
            connection.close()
    return counts == [20, 20, 40, 40]
def temporary():
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as file:
        shutil.copy('from', directory)
        file.write(b'x')
    with tempfile.NamedTemporaryFile() as file:
        return os.path.dirname(file.name) == '/tmp' and not os.path.exists(directory)
def locking():
    with open('lock', 'w') as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(file, fcntl.LOCK_UN)
    return True
class Files(rosemary.App):
    def on_switch_up(self, event, network):
        for use in [relative, rotating, copying, database, temporary, locking]:
            network.info(f'{use.__name__}: {use()}')
";

#[test]
fn app_in_python_has_its_files_in_tmp() {
    in_a_lab(|lab| {
        let app = written(WITH_FILES)?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--app", &app.to_string_lossy()])?;
        for use_of in ["relative", "rotating", "copying", "database", "temporary", "locking"] {
            net.rosemary.wait_for_log(&[&format!("{use_of}: True")], SOON)?;
        }
        assert!(!net.rosemary.log().contains("refused a system call"), "{}", net.rosemary.log());
        Ok(())
    });
}

/// Locks a granted file in each possible way, and keeps it open.
const LOCKS_A_GRANTED_FILE: &str = "import fcntl, rosemary, struct
file = open('/etc/rosemary/granted')
fcntl.lockf(file, fcntl.LOCK_SH)
for lock in [
    lambda: fcntl.flock(file, fcntl.LOCK_SH),
    lambda: fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)),
]:
    try:
        lock()
        print('locked')
    except PermissionError:
        print('refused')
class Locks(rosemary.App):
    pass
";

#[test]
fn app_in_python_locks_no_file_of_others() {
    in_a_lab(|lab| {
        let granted = "/etc/rosemary/granted";
        fs::write(granted, "")?;
        let app = written(LOCKS_A_GRANTED_FILE)?;
        let config = format!(
            "[[app]]\nname = \"{APP}\"\nobject = \"{}\"\n\
             capabilities = [\"packet-in\", \"fs.read:{granted}\"]\n",
            app.display()
        );
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["app was connected to the kernel"], SOON)?;
        let log = rosemary.log();
        assert_eq!(
            (log.matches("refused\n").count(), log.matches("locked\n").count()),
            (2, 0),
            "{log}"
        );
        assert!(log.contains("use fcntl.lockf(): locks of open files"), "{log}");
        assert!(log.contains("use fcntl.lockf(): flock()"), "{log}");
        let file = fs::File::options().read(true).write(true).open(granted)?;
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.try_lock().context("flock")?;
        Ok(())
    });
}

#[test]
fn problem_of_an_app_in_python_is_a_reason_of_the_status() {
    in_a_lab(|lab| {
        let source = "import rosemary\n\
                      class Careful(rosemary.App):\n    \
                      def on_switch_up(self, event, network):\n        \
                      network.set_problem('no key; add one to the file' + 'x' * 1_000_000)\n    \
                      def on_switch_down(self, event, network):\n        \
                      network.set_problem(None)\n        \
                      network.incident('careful saw a switch leave', 'y' * 1_000_000)\n";
        let app = written(source)?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--app", &app.to_string_lossy()])?;
        net.rosemary.wait_for("the status names the problem", SOON, |status| {
            let reasons = &status.health.reasons;
            reasons.iter().any(|it| it.contains("no key; add one to the file")).then_some(())
        })?;
        net.s1.connect_to("tcp:127.0.0.1:6654")?; // nobody listens there
        net.rosemary.wait_for("Rosemary is healthy", SOON, |status| {
            status.health.reasons.is_empty().then_some(())
        })?;
        let incidents = lab.run(&rosemary_binary().to_string_lossy(), &["incidents"])?;
        assert!(incidents.contains("careful saw a switch leave"), "{incidents}");
        Ok(())
    });
}

#[test]
fn app_in_python_publishes_routes() {
    in_a_lab(|lab| {
        let source = "import rosemary\n\
                      class Web(rosemary.App):\n    \
                      waiting = None\n    \
                      def on_http_request(self, request, network):\n        \
                      if request.path == '/later':\n            \
                      self.waiting = request\n            \
                      network.wake_at(network.now() + 0.1)\n            \
                      return None\n        \
                      if request.path == '/bad':\n            \
                      return rosemary.Response(headers=[('x-a', 'a\\r\\nset-cookie: b')])\n        \
                      seen = [request.method, request.query, request.header('Cookie'), request.body.decode()]\n        \
                      return rosemary.Response.json(seen, 201)\n    \
                      def on_wake(self, network):\n        \
                      network.respond(self.waiting, rosemary.Response(body='later'))\n";
        let app = written(source)?;
        let config = format!(
            "[[app]]\nname = \"app\"\nobject = \"{}\"\nhost = \"python\"\nstage = \"observe\"\n\
             capabilities = [\"packet-in\", \"http.serve\"]\n",
            app.display()
        );
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["app was connected to the kernel", APP], SOON)?;
        let cookie = [("Cookie", "a=b")];
        let deadline = std::time::Instant::now() + SOON;
        let answer = loop {
            let target = ("POST", "/apps/app/x?q=1");
            match request_at(APP_ROUTES, target, &cookie, b"body") {
                Ok(answer) if answer.status == 201 => break answer,
                result if std::time::Instant::now() > deadline => anyhow::bail!("{result:?}"),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let expected = serde_json::json!(["POST", "q=1", null, "body"]);
        assert_eq!(answer.json(), expected, "{answer:?}");
        // No client can end the app.
        let invalid = request_at(APP_ROUTES, ("POST", "/apps/app/x"), &[], b"\xff")?;
        assert_eq!(invalid.status, 500, "{invalid:?}");
        let injected = request_at(APP_ROUTES, ("GET", "/apps/app/bad"), &[], b"")?;
        assert_eq!(injected.status, 500, "{injected:?}");
        rosemary
            .wait_for_log(&[APP, "could not answer an HTTP request", "UnicodeDecodeError"], SOON)?;
        let later = request_at(APP_ROUTES, ("GET", "/apps/app/later"), &[], b"")?;
        assert_eq!((later.status, &*later.body), (200, &b"later"[..]));
        Ok(())
    });
}

#[test]
fn changed_file_restarts_an_app_and_a_broken_one_does_not() {
    in_a_lab(|lab| {
        let version = |number: u32| {
            format!(
                "import rosemary\n\
                 class Hub(rosemary.App):\n    \
                 def on_snapshot_end(self, event, network):\n        \
                 network.info('this is version {number}')\n    \
                 def on_packet_in(self, event, network):\n        \
                 network.packet_out_for(event, [rosemary.Action.output(rosemary.FLOOD)])\n"
            )
        };
        let app = written(&version(1))?;
        let args = ["--watch", "--app", &app.to_string_lossy()];
        let mut net = Net::start_with(lab, Of::V1_3, &args)?;
        net.rosemary.wait_for_log(&["this is version 1", APP], SOON)?;
        let pid = net.status()?.app(APP).and_then(|app| app.pid).context("it runs")?;
        written(&version(2))?;
        net.rosemary.wait_for_log(&["the file of an app has changed", "app.py"], SOON)?;
        net.rosemary.wait_for_log(&["this is version 2", APP], SOON)?;
        let second = net.rosemary.wait_for("the new one runs", SOON, |status| {
            status.app(APP)?.pid.filter(|new| *new != pid)
        })?;
        // The file is broken: the app goes on, and the log says why.
        written(&version(3).replace("rosemary.App):", "rosemary.App)"))?;
        println!("{}", net.rosemary.wait_for_log(&["SyntaxError", APP], SOON)?);
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        let status = net.status()?;
        assert_eq!(status.app(APP).and_then(|app| app.pid), Some(second), "{}", net.rosemary.log());
        // Once it is correct, it starts.
        written(&version(4))?;
        net.rosemary.wait_for_log(&["this is version 4", APP], SOON)?;
        assert!(!net.rosemary.log().contains("this is version 3"));
        Ok(())
    });
}

/// Waits until the app logs this version, in another process than before; returns its process id.
fn new_process(net: &mut Net<'_>, version: u32, before: Option<u32>) -> anyhow::Result<u32> {
    net.rosemary.wait_for_log(&[&format!("this is version {version}"), APP], SOON)?;
    Ok(net.rosemary.wait_for("the new one runs", SOON, |status| {
        status.app(APP)?.pid.filter(|new| Some(*new) != before)
    })?)
}

#[test]
fn changed_module_restarts_the_app_that_imports_it() {
    in_a_lab(|lab| {
        let dir = Path::new("/etc/rosemary/lib");
        fs::create_dir_all(dir.join("own"))?;
        fs::write(dir.join("own/__init__.py"), "")?;
        let helper = |number: u32| format!("VERSION = {number}\n");
        fs::write(dir.join("own/version.py"), helper(1))?;
        let hub = "import rosemary\n\
                   from own import version\n\
                   class Hub(rosemary.App):\n    \
                   def on_snapshot_end(self, event, network):\n        \
                   network.info(f'this is version {version.VERSION}')\n    \
                   def on_packet_in(self, event, network):\n        \
                   network.packet_out_for(event, [rosemary.Action.output(rosemary.FLOOD)])\n";
        let object = written(hub)?;
        let config = format!(
            "[[app]]\nname = \"app\"\nobject = \"{}\"\npython-path = [\"{}\"]\n",
            object.display(),
            dir.display()
        );
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--watch"])?;
        let first = new_process(&mut net, 1, None)?;
        fs::write(dir.join("own/version.py"), helper(2))?;
        net.rosemary.wait_for_log(&["the file of an app has changed", "own/version.py"], SOON)?;
        let second = new_process(&mut net, 2, Some(first))?;
        // A module that fails leaves the app as it is, and one that is not imported changes nothing.
        fs::write(dir.join("own/version.py"), "VERSION = \n")?;
        net.rosemary.wait_for_log(&["SyntaxError", APP], SOON)?;
        fs::write(dir.join("other.py"), "")?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        assert_eq!(net.status()?.app(APP).and_then(|app| app.pid), Some(second));
        fs::write(dir.join("own/version.py"), helper(3))?;
        new_process(&mut net, 3, Some(second))?;
        assert!(!net.rosemary.log().contains("other.py"));
        Ok(())
    });
}

#[test]
fn changed_module_of_ryu_restarts_its_app() {
    in_a_lab(|lab| {
        let dir = Path::new("/etc/rosemary/lib");
        fs::create_dir_all(dir.join("own"))?;
        let version = |number: u32| {
            format!(
                "from ryu.base import app_manager\n\
                 class Own(app_manager.RyuApp):\n    \
                 def start(self):\n        \
                 super().start()\n        \
                 self.logger.info('this is version {number}')\n"
            )
        };
        let file = dir.join("own/app.py");
        fs::write(&file, version(1))?;
        let command = ["ryu", "own.app", "--watch", "--python-path", "/etc/rosemary/lib"];
        let rosemary = Rosemary::start_by(lab, &rosemary_binary(), &command)?;
        let mut net = Net::of(lab, Of::V1_3, rosemary)?;
        let first = new_process(&mut net, 1, None)?;
        fs::write(&file, version(2))?;
        new_process(&mut net, 2, Some(first))?;
        Ok(())
    });
}

over_versions!(app_in_python_uses_services_and_outlives_them, |of| in_a_lab(move |lab| services(
    lab, of
)));

/// Time limit of a step that needs other programs to restart.
const LATER: Duration = Duration::from_secs(30);

/// Lines of the app's log when these services have answered it.
const HOSTS_BACK: &str = "hosts: 10.0.0.1 is at";
const STATS_BACK: &str = "stats: flows";

/// Waits until the log behind its first `before` bytes contains these texts, each behind the one before it.
fn logged_in_order(lab: &Lab, net: &Net<'_>, before: usize, texts: &[&str]) -> anyhow::Result<()> {
    Ok(lab.wait_for(texts.join(", then "), LATER, |evidence| {
        let log = net.rosemary.log();
        let new = log.get(before..).unwrap_or_default();
        new.clone_into(&mut evidence.0);
        let rest = texts
            .iter()
            .try_fold(new, |rest, text| rest.find(text).map(|at| &rest[at + text.len()..]));
        Ok(rest.map(|_| ()))
    })?)
}

fn services(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let object = format!("{}/apps/services.py", env!("CARGO_MANIFEST_DIR"));
    let config = format!(
        "[[app]]\nname = \"learning-switch\"\n\
         [[app]]\nname = \"services\"\nobject = \"{object}\"\nstage = \"observe\"\n\
         services = [\"topology\", \"hosts\", \"stats\", \"storage\"]\n\
         capabilities = [\"packet-in\", \"flow.write\", \"stats.read\", \"topology.read\", \"hosts.read\"]\n"
    );
    fs::write("/etc/rosemary/rosemary.toml", config)?;
    let mut net = Net::start_with(lab, of, &[])?;
    let s2 = lab.switch("s2", of)?;
    net.s1.link_to(&s2)?;
    s2.connect_to("tcp:127.0.0.1:6653")?;
    let mut logged = |words: &[&str]| -> anyhow::Result<()> {
        let words = [&["services"], words].concat();
        println!("{}", net.rosemary.wait_for_log(&words, LATER)?);
        Ok(())
    };
    logged(&["topology:", "[1, 2] path [(1, 2)]"])?;
    logged(&["storage: value a value of version 1"])?;
    logged(&["storage keys", "once"])?;
    logged(&["descriptor: ready"])?;
    logged(&["refused: the operator has not granted this use of the namespace"])?;
    logged(&["restored 1, changed 0, removed 0"])?;
    assert!(net.h1.ping(&net.h2, 20, INTERVAL)?.received > 0);
    let mut logged = |words: &[&str]| -> anyhow::Result<()> {
        let words = [&["services"], words].concat();
        println!("{}", net.rosemary.wait_for_log(&words, LATER)?);
        Ok(())
    };
    logged(&["host appeared: Host(dpid=0x1"])?;
    logged(&["hosts: 10.0.0.1 is at Host(dpid=0x1"])?;
    logged(&["stats: flows True, packets True"])?;
    let flow = "dl_type=0x88b5";
    for switch in [&net.s1, &s2] {
        let flows = switch.dump_flows()?;
        assert_eq!(flows.iter().filter(|it| it.contains(flow)).count(), 1, "{flows:#?}");
    }
    // A switch that has lost its flows gets it again.
    net.s1.ofctl(&["del-flows"])?;
    lab.wait_for("the wanted flow is back", LATER, |_| {
        let flows = net.s1.dump_flows().unwrap_or_default();
        Ok(flows.iter().any(|it| it.contains(flow)).then_some(()))
    })?;
    // Each service is killed. Only storage and topology certainly tell the app: of the others it reads tables, and may not
    // look before the next process is there.
    let status = net.status()?;
    let app = status.app("services").and_then(|app| app.pid).context("it runs")?;
    let storage = status.programs.services.iter().find(|it| it.name == "storage");
    let storage = storage.and_then(|it| it.pid).context("it runs")?;
    for (name, pid, gone, back) in [
        (
            "storage",
            Some(storage),
            "storage: Unavailable: the service storage is not available",
            "storage: value a value of version 1",
        ),
        ("hosts", None, "up: hosts", HOSTS_BACK),
        ("stats", None, "up: stats", STATS_BACK),
        (
            "topology",
            None,
            "topology: unavailable [1, 2] path [(1, 2)]",
            "topology:  [1, 2] path [(1, 2)]",
        ),
    ] {
        let before = net.rosemary.log().len();
        let pid = match pid {
            Some(pid) => pid,
            None => status.app(name).and_then(|app| app.pid).context("it runs")?,
        };
        // Requests wait for a stopped service, so that its end leaves some without an answer.
        let stopped = rustix::process::Pid::from_raw(pid.try_into()?).context("a number")?;
        rustix::process::kill_process(stopped, rustix::process::Signal::STOP)?;
        lab.pause(Duration::from_millis(300))?;
        kill(pid)?;
        logged_in_order(lab, &net, before, &[gone, back])?;
    }
    for (name, gone, back) in [
        ("hosts", "hosts: Unavailable: the service hosts is not available", HOSTS_BACK),
        ("stats", "stats: Unavailable: the service stats is not available", STATS_BACK),
    ] {
        let before = net.rosemary.log().len();
        developer::rosemary(lab, &["app", "stop", name])?;
        logged_in_order(lab, &net, before, &[gone])?;
        developer::rosemary(lab, &["app", "start", name])?;
        logged_in_order(lab, &net, before, &[gone, back])?;
    }
    let after = net.status()?;
    let now = after.app("services").context("it runs")?;
    assert_eq!((now.pid, now.restarts), (Some(app), 0), "{}", net.rosemary.log());
    Ok(())
}

#[test]
fn signed_package_in_python_installs_and_runs() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        let dir = joe.dir("hub").display().to_string();
        developer::rosemary(lab, &["app", "new", "hub", "--python", "--dir", &dir])?;
        // A second module, which only the archive has.
        fs::write(joe.dir("hub").join("ports.py"), "LEARNED = {}\n")?;
        let app = joe.dir("hub").join("app.py");
        fs::write(
            &app,
            fs::read_to_string(&app)? + "\n\nimport ports\n\nprint('imported', ports.__file__)\n",
        )?;
        let home = joe.home.display().to_string();
        let package = developer::rosemary(lab, &["app", "build", &dir, "--out", &home])?;
        let package = package.trim();
        let left = fs::read_dir(&joe.home)?.flatten().map(|it| it.path());
        let left: Vec<_> = left.filter(|it| it.extension().is_some_and(|it| it == "pyz")).collect();
        assert!(left.is_empty(), "the package has all of it: {left:?}");
        joe.sign(lab, package)?;
        developer::trust(&[&joe.trust("")], "")?;
        developer::rosemary(lab, &["app", "install", package])?;
        developer::trust(&[&joe.trust("")], "[[app]]\nname = \"hub\"\n")?;
        let up = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        let mut net = Net::of(lab, Of::V1_3, up)?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        assert_eq!(net.flows_to(&net.h1)?.len(), 1);
        println!("{}", net.rosemary.wait_for_log(&["imported /app/", "ports.py"], SOON)?);
        let log = net.rosemary.log();
        assert!(!log.contains("UNSIGNED"), "{log}");
        Ok(())
    });
}

over_versions!(features_reach_the_app, |of| in_a_lab(move |lab| features(lab, of)));

/// The features reply of a switch arrives, and the codec encodes it as it was.
fn features(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let source = "import rosemary, rosemary.openflow\n\
                  class Features(rosemary.App):\n    \
                  def on_switch_up(self, event, network):\n        \
                  reply = rosemary.openflow.decode(event.features)\n        \
                  assert reply.encode() == event.features\n        \
                  network.info(f'features: {reply}')\n";
    let app = written(source)?;
    let mut net = Net::start_with(lab, of, &["--app", &app.to_string_lossy()])?;
    let line = net.rosemary.wait_for_log(&["features:", "FEATURES_REPLY"], SOON)?;
    println!("{line}");
    assert!(line.contains("n_tables:254"), "{line}");
    Ok(())
}
