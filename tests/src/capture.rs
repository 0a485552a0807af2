//! Captures the controller's messages in a lab and checks them with tshark. A message that tshark
//! calls malformed is a bug in Rosemary.
//!
//! Not checked, and reported as such: messages inside TLS, and those of a lab inside the lab
//! (`rosemary demo`). Of OpenFlow 1.1 and 1.2 tshark knows the header alone. In 1.5 it stops at most match fields, so frames of
//! such connections are only counted; the codec's own test with tshark has the reason for each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use cli::lab::{Lab, Running};
use rustix::process::Signal;

use crate::skip;

/// A burst of packet-outs is one frame with many nested messages and packets; tshark otherwise
/// stops at a depth of 500.
const DEEP: &str = "gui.max_tree_depth:100000";

/// Only TCP segments with payload: thousands of handshakes would fill the buffer.
const HAS_PAYLOAD: &str = "(tcp and ip[2:2] - ((ip[0] & 0xf) << 2) - ((tcp[12] & 0xf0) >> 2) != 0)";

/// Rosemary's listen port in all but a few tests.
pub(crate) const PORT: u16 = 6653;

/// Time limit for tcpdump to start and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Capture buffer in KiB: a worker's output while a busy machine runs other processes.
const BUFFER: &str = "65536";

/// Number of bytes at the end of a file that contain its last packets.
const TAIL: usize = 4096;

/// `OFPT_ERROR` in every version.
const ERROR: &str = "1";

/// `OFPT_FLOW_MOD`, and the size in bytes of one of OpenFlow 1.0 without actions.
const FLOW_MOD: &str = "14";
const WITHOUT_ACTIONS: &str = "72";

/// The controller's wire versions, in tshark's notation.
const SPOKEN: [&str; 6] = ["0x01", "0x02", "0x03", "0x04", "0x05", "0x06"];

/// That of OpenFlow 1.5.
const V1_5: &str = "0x06";

/// First byte of a TLS handshake record, which is no OpenFlow version.
const TLS: &str = "0x16";

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
    file: PathBuf,
    port: u16,
}

impl Capture {
    /// Starts to capture packets from `port`; no packet is missed after this returns.
    ///
    /// # Errors
    /// tcpdump does not work.
    pub fn start(lab: &Lab, port: u16) -> anyhow::Result<Self> {
        let file = lab.files().join(format!("from-{port}.pcap"));
        let mut command = lab.command("tcpdump");
        // -Z root: it would become another user, and so outlive the lab.
        command.args(["-Z", "root", "-i", "lo", "-s", "0", "-B", BUFFER, "-U"]);
        command.arg("-w").arg(&file).arg(format!("src port {port} and (udp or {HAS_PAYLOAD})"));
        let mut tcpdump = lab.start(&format!("tcpdump-{port}"), command)?;
        lab.wait_for("tcpdump captures", PATIENCE, |_| {
            tcpdump.must_run()?;
            Ok(tcpdump.stderr().contains("listening on").then_some(()))
        })?;
        Ok(Self { tcpdump, file, port })
    }

    /// Stops the capture and has tshark read it.
    ///
    /// # Errors
    /// tshark calls a message malformed, or the capture is incomplete.
    #[expect(clippy::print_stdout, reason = "the summary is shown with the test's result")]
    pub fn check(mut self, lab: &Lab) -> anyhow::Result<()> {
        self.wait_until_all_is_written(lab)?;
        self.tcpdump.signal(Signal::INT);
        self.tcpdump.wait(PATIENCE).context("tcpdump does not end")?;
        let said = self.tcpdump.stderr();
        ensure!(said.contains("\n0 packets dropped by kernel"), "packets are missing: {said}");
        if !is_installed("tshark") {
            skip(&anyhow::anyhow!("tshark is not installed, so the capture is not checked"));
            return Ok(());
        }
        let file = self.file.display().to_string();
        let as_openflow = format!("tcp.port=={},openflow", self.port);
        let read = ["-r", &file, "-d", &as_openflow, "-o", DEEP];
        let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
        let args: Vec<&str> = read.into_iter().chain(["-T", "fields"]).chain(fields).collect();
        let reading = Reading::of(&lab.run("tshark", &args)?)?;
        if !reading.messages.is_empty() || !reading.tls.is_empty() {
            println!("{reading}");
        }
        if let Some(frame) = reading.malformed {
            let only = format!("frame.number=={frame}");
            let shown = lab.run(
                "tshark",
                &[&read[..], &["-O", "openflow,openflow_v1,openflow_v4", "-Y", &only]].concat(),
            )?;
            bail!("tshark reports malformed messages of the controller:\n{shown}");
        }
        Ok(())
    }
}

impl Capture {
    /// tcpdump receives packets with a delay: once a final packet has arrived, all earlier ones
    /// have.
    fn wait_until_all_is_written(&self, lab: &Lab) -> anyhow::Result<()> {
        let last = b"the last packet of this capture";
        UdpSocket::bind(("127.0.0.1", self.port))?.send_to(last, "127.0.0.1:9")?;
        lab.wait_for("tcpdump has written all", PATIENCE, |_| {
            let bytes = fs::read(&self.file).unwrap_or_default();
            let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
            Ok(tail.windows(last.len()).any(|window| window == last).then_some(()))
        })?;
        Ok(())
    }
}

/// Fields that tshark prints of each frame.
const FIELDS: [&str; 10] = [
    "frame.number",
    "tcp.stream",
    "openflow.version",
    "openflow_v4.version",
    "openflow_v5.version",
    "openflow_v6.version",
    "openflow_1_0.type",
    "openflow.length",
    "openflow_v4.type",
    "_ws.malformed",
];

/// tshark's report about a capture.
#[derive(Debug, Default)]
struct Reading {
    /// Number of messages by version.
    messages: BTreeMap<String, usize>,
    /// Connections over TLS.
    tls: BTreeSet<String>,
    /// Connections that speak OpenFlow 1.5.
    newest: BTreeSet<String>,
    /// The first frame with a malformed message or an unsupported version.
    malformed: Option<String>,
    /// Number of ignored marks, see `errors` and `without_actions`.
    excused: usize,
}

impl Reading {
    fn of(text: &str) -> anyhow::Result<Self> {
        let mut reading = Self::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [frame, stream, versions @ .., types, lengths, types_1_3, malformed] = &fields[..]
            else {
                bail!("cannot parse tshark's line {line:?}");
            };
            let versions = || versions.iter().flat_map(|versions| versions.split(','));
            if versions().any(|version| version == TLS) {
                reading.tls.insert((*stream).to_owned());
            }
            if reading.tls.contains(*stream) {
                continue;
            }
            let versions: Vec<&str> = versions().filter(|version| !version.is_empty()).collect();
            if versions.contains(&V1_5) {
                reading.newest.insert((*stream).to_owned());
            }
            // tshark takes the middle of a message of 1.5 for the beginning of another one.
            if reading.newest.contains(*stream) {
                *reading.messages.entry(V1_5.to_owned()).or_default() += 1;
                continue;
            }
            let unknown = versions.iter().filter(|version| !SPOKEN.contains(version)).count();
            for version in versions {
                *reading.messages.entry(version.to_owned()).or_default() += 1;
            }
            let marks = marks(malformed);
            let errors = errors(types) + errors(types_1_3);
            if unknown > errors || marks > errors + without_actions(types, lengths) {
                reading.malformed.get_or_insert_with(|| (*frame).to_owned());
            } else {
                reading.excused += marks;
            }
        }
        Ok(reading)
    }
}

/// Tshark's complaint about a TCP segment that was sent again with more data, which is no message.
const REASSEMBLY: &str = "[Reassembly error";

/// Counts the marks in tshark's output of a frame: `[Malformed Packet: openflow_v4]`, and the name
/// of the field once per mark.
fn marks(malformed: &str) -> usize {
    if malformed.starts_with(REASSEMBLY) {
        return 0;
    }
    let marks = malformed.split(',').filter(|mark| mark.starts_with('[')).count();
    marks.max(usize::from(!malformed.is_empty()))
}

/// Counts the errors among these message types. An error quotes the beginning of the rejected
/// message, which tshark parses as a message too.
fn errors(types: &str) -> usize {
    types.split(',').filter(|kind| *kind == ERROR).count()
}

/// Counts the OpenFlow 1.0 flow-mods without actions among these messages. tshark 4.0 looks for
/// another action at their end and calls them malformed, including those of Open vSwitch.
fn without_actions(types: &str, lengths: &str) -> usize {
    let messages = types.split(',').zip(lengths.split(','));
    messages.filter(|message| *message == (FLOW_MOD, WITHOUT_ACTIONS)).count()
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tshark read what the controller sent:")?;
        for (version, count) in &self.messages {
            write!(f, " {count} messages of wire version {version},")?;
        }
        write!(f, " connections over TLS left out: {}", self.tls.len())?;
        if self.excused > 0 {
            write!(f, "; marks excused: {}", self.excused)?;
        }
        Ok(())
    }
}

/// Whether a program is in `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frame, stream, versions, versions of 1.3, 1.4 and 1.5, types of 1.0, their lengths, types of 1.3, marks.
    const TEXT: &str = "\
1\t0\t\t0x04\t\t\t\t\t0\t
2\t0\t0x01,0x01\t\t\t\t14,13\t72,96\t\t[Malformed Packet: openflow],_ws.malformed
3\t1\t0x16\t\t\t\t\t\t\t
4\t1\t0x9a\t\t\t\t\t\t\t[Malformed Packet: openflow],_ws.malformed
5\t2\t\t0x04,0x04,0x9a\t\t\t\t\t0,1,245\t[Malformed Packet: openflow],_ws.malformed
6\t3\t\t\t\t\t\t\t\t
7\t4\t\t\t\t0x06\t\t\t\t[Malformed Packet: openflow_v6],_ws.malformed
";

    #[test]
    fn ignored_marks_and_tls_are_reported_only() {
        let reading = Reading::of(TEXT).unwrap();
        assert_eq!(reading.malformed, None);
        let text = reading.to_string();
        for part in ["2 messages of wire version 0x01", "left out: 1", "excused: 2"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn unexplained_marks_and_versions_fail() {
        for line in [
            "7\t0\t0x01\t\t\t\t13\t96\t\t[Malformed Packet: openflow],_ws.malformed",
            "7\t0\t0x01\t\t\t\t14\t80\t\t[Malformed Packet: openflow],_ws.malformed",
            "7\t0\t0x01,0x01\t\t\t\t14,13\t72,96\t\t[Malformed Packet: openflow],_ws.malformed,[Malformed Packet: openflow],_ws.malformed",
            "7\t0\t\t0x04\t\t\t\t\t14\t[Malformed Packet: openflow],_ws.malformed",
            "7\t0\t\t0x04\t\t\t\t\t1\t[Malformed Packet: openflow],_ws.malformed,[Malformed Packet: openflow],_ws.malformed",
            "7\t0\t0x07\t\t\t\t\t\t\t",
        ] {
            let reading = Reading::of(&[TEXT, line].concat()).unwrap();
            assert_eq!(reading.malformed.as_deref(), Some("7"), "{line}");
        }
    }
}
