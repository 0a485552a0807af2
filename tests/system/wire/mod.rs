//! Open vSwitch and tshark read the codec's messages as intended, and the codec reads Open
//! vSwitch's replies with equal values.
//!
//! A test connects to a listening switch as a minimal controller ([`rosemary_tests::controller`]),
//! sends entries of every kind, waits for a barrier, and reads them back with our codec, with
//! `ovs-ofctl`, and with `tshark` from a capture of the connection.

mod flows;
mod groups_and_meters;
mod model;
mod v1_0;
mod v1_3;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Running, Switch};
use rosemary_tests::capture::is_installed;
use rosemary_tests::controller::{Controller, PORT};
use rosemary_tests::{rosemary_binary, skip};

/// A listening switch with three ports, a controller connected to it, and a capture of their
/// messages.
struct CapturedSession<'lab> {
    lab: &'lab Lab,
    switch: Switch<'lab>,
    _hosts: [Host<'lab>; 3],
    controller: Controller,
    capture: Running,
}

impl<'lab> CapturedSession<'lab> {
    fn start(lab: &'lab Lab, of: Of) -> anyhow::Result<Self> {
        let switch = lab.switch("s1", of)?;
        let [h1, h2, h3] = ["h1", "h2", "h3"].map(|name| lab.host(name, &switch));
        let hosts = [h1?, h2?, h3?];
        let mut command = lab.command("tcpdump");
        command.args(["-i", "lo", "-s", "0", "-B", "16384", "-U", "-w"]).arg(capture_file(lab));
        command.args(["tcp", "port", &PORT.to_string()]);
        let capture = lab.start("tcpdump", command)?;
        lab.wait_for("tcpdump captures", Duration::from_secs(10), |_| {
            // The file's header is written when the capture has started.
            Ok(capture_file(lab).metadata().is_ok_and(|file| file.len() >= 24).then_some(()))
        })?;
        let controller = Controller::call(lab, &switch)?;
        Ok(Self { lab, switch, _hosts: hosts, controller, capture })
    }

    /// Ends the capture and reads it with `rosemary ofp` and tshark: every message must decode.
    /// Returns tshark's output.
    fn read_capture(self) -> anyhow::Result<Option<String>> {
        let Self { lab, mut controller, capture, .. } = self;
        let file = capture_file(lab);
        let path = file.to_str().context("the lab's files have plain names")?;
        let decode = || -> anyhow::Result<(bool, String)> {
            let mut ofp = lab.command(rosemary_binary());
            ofp.args(["ofp", "decode", path, "--port", &PORT.to_string()]);
            let output = ofp.stderr(Stdio::null()).output()?;
            Ok((output.status.success(), String::from_utf8(output.stdout)?))
        };
        // tcpdump receives packets up to a second late: once the last is written, all are.
        controller.must_all_be_accepted()?;
        let last = format!("(xid={:#x})", controller.last_xid());
        lab.wait_for("tcpdump has written all", Duration::from_secs(10), |_| {
            let text = decode().map_or(String::new(), |(_, text)| text);
            let is_last = |line: &str| line.contains("BARRIER_REPLY") && line.contains(&last);
            Ok(text.lines().any(is_last).then_some(()))
        })?;
        drop((controller, capture));
        let (decoded, text) = decode()?;
        ensure!(decoded, "rosemary ofp decode: {}", errors(&text, "error:"));

        if !is_installed("tshark") {
            skip(&anyhow::anyhow!("tshark is not installed, so the capture is not checked"));
            return Ok(None);
        }
        let as_openflow = format!("tcp.port=={PORT},openflow");
        let tshark = |args: &[&str]| {
            lab.run("tshark", &[&["-r", path, "-d", &as_openflow][..], args].concat())
        };
        let theirs = tshark(&["-V"])?;
        // tshark 4.0 looks for another action at the end of an OpenFlow 1.0 flow-mod without
        // actions and calls it malformed, including Open vSwitch's own.
        let without_actions = text.lines().filter(|line| {
            line.contains("OFPT_FLOW_MOD (OF1.0)") && line.ends_with("actions=drop")
        });
        let malformed = tshark(&["-Y", "_ws.malformed", "-T", "fields", "-e", "frame.number"])?;
        ensure!(
            malformed.lines().count() == without_actions.count(),
            "tshark: {}",
            errors(&theirs, "Malformed Packet")
        );
        let of_each = ["-e", "openflow.length", "-e", "openflow_v4.length"];
        let lengths = tshark(&[&["-T", "fields"][..], &of_each].concat())?;
        let seen = lengths.split([',', '\t', '\n']).filter(|length| !length.is_empty()).count();
        ensure!(seen > 0, "the capture holds no message");
        // tshark also shows the message quoted in an error.
        let errors = text.lines().filter(|line| line.contains("OFPT_ERROR")).count();
        let ours = text.lines().count();
        ensure!(
            seen == ours + errors,
            "tshark saw {seen} messages, rosemary ofp decode {ours} and {errors} in errors"
        );
        println!("tshark and rosemary ofp decode read the same {ours} messages");
        Ok(Some(theirs))
    }
}

fn capture_file(lab: &Lab) -> PathBuf {
    lab.files().join("wire.pcap")
}

/// Returns the lines around the first that contains `what`.
fn errors(text: &str, what: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains(what)).unwrap_or(0);
    lines[at.saturating_sub(20)..lines.len().min(at + 3)].join("\n")
}
