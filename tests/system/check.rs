//! `rosemary up --check`: the mistakes of a configuration are reported with their places, and nothing starts.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use cli::lab::Lab;
use rosemary_tests::traces::Traces;
use rosemary_tests::{in_a_lab, rosemary_binary};

const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// The app of most cases; its keys begin in line 3.
const APP: &str = "[[app]]\nname = \"learning-switch\"\n";

/// Configurations, each with places of mistakes and a part of the message about each.
const MISTAKES: &[(&str, &[(&str, &str)])] = &[
    ("[[app", &[("1:", "not TOML")]),
    ("[controler]\n", &[("1:2", "did you mean `controller`?")]),
    ("listen = []\n", &[("1:1", "it belongs into [controller]")]),
    ("[controller]\nlistn = []\n", &[("2:1", "did you mean `listen`?")]),
    ("[controller]\nlisten = [\"127.0.0.1\"]\n", &[("2:11", "expected an address and a port")]),
    ("[controller]\nlisten = [\"0.0.0.0:1\", \"127.0.0.1:1\"]\n", &[("2:10", "overlap")]),
    ("[controller]\nworkers = 17\n", &[("2:11", "from 1 to 16")]),
    ("[controller]\nplain = \"never\"\n", &[("2:9", "rosemary pki init")]),
    ("[controller]\nplain = \"any\"\n", &[("2:9", "--allow-unsigned")]),
    ("[controller]\ntls-dir = \"none\"\n", &[("2:11", "/etc/rosemary/none")]),
    ("[controller]\ntls-dir = \"half\"\n", &[("2:11", "controller-cert.pem")]),
    ("[zones]\nrequire = \"all\"\n", &[("2:11", "expected \"best\" or \"full\"")]),
    ("[storage]\nbytes-per-app = \"1 KiB\"\n", &[("2:17", "bytes-per-app")]),
    (
        "[storage]\nkeys-per-app = 0\n[log]\nbytes-per-app = 1\n",
        &[("2:16", "keys-per-app is 0"), ("4:1", "unknown key \"bytes-per-app\"")],
    ),
    (
        "APP[safe-mode]\napps = [\"lerning-switch\"]\n",
        &[("4:8", "did you mean `learning-switch`?")],
    ),
    ("[[app]]\nname = \"firewall\"\nconfig = \"text\"\n", &[("3:10", "line 1")]),
    (
        "APP[[app]]\nname = \"forwarding\"\n",
        &[("4:8", "forwarding and learning-switch both forward")],
    ),
    (
        "APP[[app]]\nname = \"firewall\"\n",
        &[("4:8", "firewall needs a file of its own configuration")],
    ),
    (
        "APP[[app]]\nname = \"firewall\"\nconfig = \"rules\"\nstage = \"control\"\n",
        &[("6:9", "allow = [\"guard-stage\"]"), ("5:10", "/etc/rosemary/rules")],
    ),
    (
        "[[app]]\nname = \"none\"\n[[app]]\nname = \"firewall\"\nconfig = \"missing\"\n",
        &[("2:8", "the app none is missing"), ("5:10", "/etc/rosemary/missing")],
    ),
    ("[[trust]]\nname = \"joe\"\nkey = \"RWQ\"\n", &[("3:7", "56 letters")]),
    ("[[app]]\nstage = \"guard\"\n", &[("1:1", "without a name")]),
    ("[[app]]\nname = \"lerning-switch\"\n", &[("2:8", "did you mean `learning-switch`?")]),
    ("[[app]]\nname = \"a\"\nobject = \"a.so\"\n", &[("3:10", "/etc/rosemary/a.so; build it")]),
    ("[[app]]\nname = \"a\"\nobject = \"text\"\n", &[("3:10", "it is not a shared object")]),
    ("[[app]]\nname = \"broken\"\n", &[("2:8", "it is not signed")]),
    (
        "APP host = \"krnel\"",
        &[("3:8", "expected \"user\", \"kernel\", \"python\", \"ryu\" or \"wasm\"")],
    ),
    ("APP config = \"rules\"", &[("3:10", "/etc/rosemary/rules")]),
    ("APP capabilities = [\"flow.wrte\"]", &[("3:17", "did you mean \"flow.write\"?")]),
    ("APP capabilities = [\"fs.read:/run/rosemary\"]", &[("3:16", "/run/rosemary")]),
    ("APP limits = { memory = \"1 MiB\" }", &[("3:", "memory")]),
    (
        "APP dpids = [\"zz\"]\nlimits = { memory = \"1 MiB\" }",
        &[("3:10", "dpids is \"zz\""), ("4:", "memory")],
    ),
    (
        "[controller]\nworkers = 100\nplain = \"sometimes\"\n",
        &[("2:11", "from 1 to 16"), ("3:9", "\"never\"")],
    ),
    ("APP[[app]]\nname = \"learning-switch\"", &[("3:1", "in line 1")]),
    (
        "APP band = [2, 9]\n[[app]]\nname = \"firewall\"\nband = [9, 10]",
        &[("6:8", "overlaps [2, 9]")],
    ),
    (
        "[zones]\nrequire = 1\n[[app]]\nname = \"a\"\nstge = 1\n[[app]]\nname = \"b\"\nfail = 1\n",
        &[("2:11", "require is 1"), ("5:1", "did you mean `stage`?"), ("8:8", "fail is 1")],
    ),
    (
        "[controller]\nworkers = 0\nlistn = []\nplain = \"al\"\n",
        &[("2:11", "from 1 to 16"), ("3:1", "did you mean `listen`?"), ("4:9", "\"never\"")],
    ),
    (
        "APP stage = \"gaurd\"\npace = 0\ncapabilities = [\"flow.wrte\", \"packet-uot\"]",
        &[
            ("3:9", "did you mean \"guard\"?"),
            ("4:8", "pace is 0"),
            ("5:17", "did you mean \"flow.write\"?"),
            ("5:30", "did you mean \"packet-out\"?"),
        ],
    ),
    (
        "[[app]]\nname = \"none\"\n[[app]]\nname = \"linkmonitor\"\n",
        &[("2:8", "the app none is missing"), ("4:8", "did you mean `link-monitor`?")],
    ),
];

#[test]
fn all_mistakes_are_reported_with_places() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        fs::write("/etc/rosemary/text", "no object")?;
        fs::create_dir("/etc/rosemary/half")?;
        // A package without a signature.
        fs::create_dir_all("/var/lib/rosemary/apps")?;
        fs::write("/var/lib/rosemary/apps/broken.rosemary", "no package")?;
        for (text, mistakes) in MISTAKES {
            let text = text.replacen("APP ", APP, 1).replacen("APP[", &format!("{APP}["), 1);
            fs::write(CONFIG, &text)?;
            let (code, _, stderr) = check(lab, &["--allow-unsigned"])?;
            ensure!(code == 78, "{text}: {code}: {stderr}");
            let lines: Vec<&str> = stderr.lines().collect();
            ensure!(lines.len() == mistakes.len(), "{text}: {stderr}");
            for (line, (place, part)) in lines.iter().zip(*mistakes) {
                let begin = format!("rosemary: {CONFIG}:{place}");
                ensure!(line.starts_with(&begin) && line.contains(part), "{text}: {stderr}");
            }
        }
        let new = traces.new_since();
        ensure!(new.iter().all(|path| path.starts_with("/var/lib/rosemary")), "{new:?}");
        Ok(())
    });
}

#[test]
fn valid_configuration_and_other_commands_have_their_exit_codes() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let (code, stdout, stderr) = check(lab, &[])?;
        ensure!(code == 0 && stdout.contains("no configuration file"), "{stdout}{stderr}");
        fs::write(CONFIG, format!("{APP}[[app]]\nname = \"firewall\"\nenabled = false\n"))?;
        let (code, stdout, stderr) = check(lab, &[])?;
        ensure!(
            code == 0 && stdout.ends_with("is valid; apps: learning-switch\n"),
            "{stdout}{stderr}"
        );
        let (code, _, stderr) = check(lab, &["--app", "firewal"])?;
        ensure!(code == 78 && stderr.contains("did you mean `firewall`?"), "{stderr}");
        let (code, _, stderr) = check(lab, &["--config", "/nowhere.toml"])?;
        ensure!(code == 78 && stderr.contains("cannot read the configuration"), "{stderr}");
        ensure!(traces.new_since() == [""; 0], "nothing was started");
        fs::write(CONFIG, "x = 1\n")?;
        let (code, _, stderr) =
            run(lab.command(rosemary_binary()).args(["status", "--config", CONFIG]))?;
        ensure!(
            code == 78 && stderr.contains("rosemary.toml:1:1: unknown key"),
            "{code}: {stderr}"
        );
        Ok(())
    });
}

/// Apps in Python as the operator configures them, with a part of the mistake, if there is one.
const IN_PYTHON: &[(&str, Option<&str>)] = &[
    ("host = \"python\"\nobject = \"good.py\"", None),
    (
        "host = \"python\"\nobject = \"missing.py\"",
        Some("4:10: the object of the app pyx is missing"),
    ),
    (
        "host = \"python\"\nobject = \"bad.py\"",
        Some("SyntaxError: '(' was never closed; correct the file"),
    ),
    (
        "host = \"python\"\nobject = \"object.py\"",
        Some("it is a shared object, and the app's `host`"),
    ),
];

#[test]
fn app_in_python_is_checked_as_it_is_run() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let app = "import rosemary\nclass Good(rosemary.App):\n    pass\n";
        fs::write("/etc/rosemary/good.py", app)?;
        fs::write("/etc/rosemary/bad.py", "import rosemary\nclass Bad(\n")?;
        fs::copy("/proc/self/exe", "/etc/rosemary/object.py")?;
        for (keys, mistake) in IN_PYTHON {
            fs::write(CONFIG, format!("[[app]]\nname = \"pyx\"\n{keys}\n"))?;
            let (code, stdout, stderr) = check(lab, &["--allow-unsigned"])?;
            if let Some(part) = mistake {
                ensure!(code == 78 && stderr.contains(part), "{keys}: {code}: {stderr}");
                ensure!(stderr.starts_with(&format!("rosemary: {CONFIG}:4:10: ")), "{stderr}");
                ensure!(!stderr.contains("build it again"), "{keys}: {stderr}");
            } else {
                ensure!(code == 0 && stdout.ends_with("apps: pyx\n"), "{keys}: {stdout}{stderr}");
            }
        }
        fs::remove_file(CONFIG)?;
        let (code, stdout, stderr) = check(lab, &["--app", "/etc/rosemary/good.py"])?;
        ensure!(code == 0 && stdout.ends_with("apps: good\n"), "{stdout}{stderr}");
        ensure!(traces.new_since() == [""; 0], "nothing was started");
        Ok(())
    });
}

/// An app that uses its private `/tmp` before it runs, and a web interface.
const USES_ITS_ZONE: &str = "import tempfile
from ryu.app.wsgi import WSGIApplication
from ryu.base import app_manager
from ryu.lib import hub
with open('/tmp/app.log', 'w') as log, open('stats.csv', 'w') as relative:
    log.write('imported')
class App(app_manager.RyuApp):
    _CONTEXTS = {'wsgi': WSGIApplication}
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dir = tempfile.mkdtemp()
        self.own = hub.listen(('', 8080))
        hub.spawn(self.own.accept)
        hub.sleep(0)
";

/// Calls of an app that a check refuses like a running zone.
const REFUSED: &[&str] = &[
    "open('/usr/lib/x', 'w')",
    "socket.create_server(('127.0.0.1', 8080))",
    "socket.socket(fileno=listening._listeners[0].fd).connect(('127.0.0.1', 8080))",
    "socket.socket(fileno=listening._listeners[0].fd).listen()",
];

#[test]
fn app_is_checked_with_tmp_and_ports() {
    in_a_lab(|lab| {
        // The address is taken: a check must neither need nor reach it.
        let running = TcpListener::bind("127.0.0.1:8080")?;
        let traces = Traces::look();
        let config = "[[app]]\nname = \"web\"\nhost = \"ryu\"\nobject = \"web.py\"\n\
                      listen = [\"wsapi=127.0.0.1:8080\"]\n";
        fs::write(CONFIG, config)?;
        fs::write("/etc/rosemary/web.py", USES_ITS_ZONE)?;
        let (code, stdout, stderr) = check(lab, &["--allow-unsigned"])?;
        ensure!(code == 0 && stdout.ends_with("apps: web\n"), "{stdout}{stderr}");
        for call in REFUSED {
            let call = format!("import socket\nfrom rosemary_ryu import listening\n{call}\n");
            fs::write("/etc/rosemary/web.py", [USES_ITS_ZONE, &call].concat())?;
            let (code, stdout, stderr) = check(lab, &["--allow-unsigned"])?;
            let is_refused = code == 78 && stderr.contains("PermissionError");
            ensure!(is_refused, "{call}: {code}: {stdout}{stderr}");
        }
        running.set_nonblocking(true)?;
        let nobody = running.accept().map_err(|error| error.kind());
        ensure!(matches!(nobody, Err(ErrorKind::WouldBlock)), "{nobody:?}");
        ensure!(traces.new_since() == [""; 0], "nothing was started");
        Ok(())
    });
}

#[test]
fn missing_environment_of_python_has_a_place() {
    in_a_lab(|lab| {
        // The programs beside a virtual environment without rosemary-ryu.
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-ryu");
        let _ = fs::remove_dir_all(&dir);
        let programs = dir.join("programs");
        fs::create_dir_all(&programs)?;
        fs::create_dir(dir.join("python"))?;
        let note = r#"{"interpreter": "/python", "boot": "/boot", "read": [], "ryu": false}"#;
        fs::write(dir.join("python/rosemary-python.json"), note)?;
        let rosemary = rosemary_binary();
        for file in fs::read_dir(rosemary.parent().context("it has a directory")?)? {
            let name = file?.file_name();
            let is_program = |name: &str| name.starts_with("rosemary") && !name.contains('.');
            if is_program(&name.to_string_lossy()) {
                fs::hard_link(rosemary.with_file_name(&name), programs.join(&name))?;
            }
        }
        let app = "[[app]]\nname = \"pyx\"\nobject = \"app.py\"\nhost = \"ryu\"\n";
        fs::write(CONFIG, app)?;
        fs::write("/etc/rosemary/app.py", "")?;
        let check = ["up", "--check", "--allow-unsigned"];
        let (code, _, stderr) = run(lab.command(programs.join("rosemary")).args(check))?;
        let expected = format!("rosemary: {CONFIG}:4:8: the app pyx is written for Ryu");
        ensure!(code == 78 && stderr.starts_with(&expected), "{code}: {stderr}");
        fs::remove_dir_all(&dir)?;
        Ok(())
    });
}

/// Runs `rosemary up --check` with more arguments. Returns the exit code and both outputs.
fn check(lab: &Lab, args: &[&str]) -> anyhow::Result<(i32, String, String)> {
    run(lab.command(rosemary_binary()).args(["up", "--check"]).args(args))
}

fn run(command: &mut Command) -> anyhow::Result<(i32, String, String)> {
    let output = command.stdin(Stdio::null()).output()?;
    let code = output.status.code().context("it was killed")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}
