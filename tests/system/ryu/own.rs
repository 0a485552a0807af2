//! Apps of Ryu of one's own: their environment, their end, `asyncio`.

use std::fs;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::{in_a_lab, rosemary_binary};

use super::{CONFIG, PORT, http};

const APP: &str = "/etc/rosemary/own.py";

/// Runs `rosemary ryu` with an app that cannot run, until the command ends. Returns its last line.
fn last_line(lab: &Lab, source: &str, options: &[&str]) -> anyhow::Result<String> {
    fs::write(APP, source)?;
    let mut command = lab.command("timeout");
    command.args(["--kill-after=1", "20"]).arg(rosemary_binary()).arg("ryu").args(options).arg(APP);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "{}: {text}", output.status);
    ensure!(!text.contains("stack backtrace"), "{text}");
    Ok(text.lines().last().context("it prints a line")?.to_owned())
}

#[test]
fn app_of_ryu_that_cannot_run_ends_the_command_with_its_error() {
    in_a_lab(|lab| {
        let line = last_line(lab, "import no_such_module\n", &[])?;
        assert!(line.starts_with("rosemary: own: "), "{line}");
        assert!(line.contains("No module named 'no_such_module'"), "{line}");
        // It ends itself, with a variable that the command passes on.
        let source = "import os, sys\nsys.exit('the key is ' + os.environ['API_KEY'])\n";
        let line = last_line(lab, source, &["--env", "API_KEY=sesame"])?;
        assert!(line.contains("it ended itself at its start: the key is sesame"), "{line}");
        Ok(())
    });
}

const ASYNCIO: &str = "\
import asyncio
from ryu.base import app_manager
from ryu.lib import hub


class Own(app_manager.RyuApp):
    def start(self):
        super().start()
        return hub.spawn(lambda: asyncio.run(self.main()))

    async def main(self):
        server = await asyncio.start_server(self.serve, '0.0.0.0', PORT)
        async with server:
            await server.serve_forever()

    async def serve(self, reader, writer):
        line = await reader.readline()
        await asyncio.sleep(0.01)
        writer.write(b'HTTP/1.0 200 OK\\r\\n\\r\\n' + line.split()[1])
        await writer.drain()
        writer.close()
";

#[test]
fn asyncio_of_an_app_of_ryu_serves_a_granted_port() {
    in_a_lab(|lab| {
        fs::write(APP, ASYNCIO.replace("PORT", &PORT.to_string()))?;
        let (rosemary, port) = (rosemary_binary().display().to_string(), PORT.to_string());
        let args = ["ryu", "--print-config", "--wsapi-port", &port, APP];
        fs::write(CONFIG, lab.run(&rosemary, &args)?)?;
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &["--config", CONFIG])?;
        for path in ["/one", "/two"] {
            let answer = http(lab, "GET", path, "");
            ensure!(answer.as_deref().ok() == Some(path), "{answer:?}: {}", rosemary.log());
        }
        ensure!(!rosemary.log().contains("system call"), "{}", rosemary.log());
        Ok(())
    });
}
