//! `ofbench measure-switch` against Open vSwitch agrees with tcpdump, within the error that it states.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Running, Switch};
use rosemary_tests::pki::Pki;
use rosemary_tests::{in_a_lab_without_capture, rosemary_binary};
use rustix::process::Signal;
use serde_json::Value;

/// Time limit for tcpdump to start and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of packets of each measurement, and those before that do not count.
const RUNS: usize = 60;
const WARM_UP: usize = 10;

/// The mark in each frame of ofbench, and the places of flow and sequence behind it.
const MARK: &[u8] = b"ofbm";
const FLOW: usize = 8;
const SEQUENCE: usize = 12;

/// Upper 12 bits of the flows of each measurement: packet-in with whole packets, and flow set-up with whole packets.
const PACKET_IN: u32 = 1;
const SET_UP: u32 = 3;

/// OpenFlow message types in both versions.
const IS_PACKET_IN: u8 = 10;
const IS_PACKET_OUT: u8 = 13;

/// A frame of ofbench: its flow and its sequence.
type Frame = (u32, u32);

/// Times in nanoseconds, by frame.
type Times = BTreeMap<Frame, i64>;

/// A switch with two ports that lead to interfaces of the lab.
fn switch_between(lab: &Lab, of: Of) -> anyhow::Result<Switch<'_>> {
    let switch = lab.switch("s1", of)?;
    for (here, there) in [("in0", "s1-in"), ("out0", "s1-out")] {
        lab.run("ip", &["link", "add", here, "type", "veth", "peer", "name", there])?;
        for end in [here, there] {
            // Without a link-local address, IPv6 sends no packets of its own.
            let _ = lab.run("ip", &["link", "set", end, "addrgenmode", "none"]);
            lab.run("ip", &["link", "set", end, "up"])?;
        }
        lab.run("ovs-vsctl", &["--timeout=10", "add-port", "s1", there])?;
    }
    Ok(switch)
}

/// A running tcpdump of an interface.
struct Dump {
    tcpdump: Running,
    file: PathBuf,
}

impl Dump {
    fn start(lab: &Lab, interface: &str, filter: &str) -> anyhow::Result<Self> {
        let file = lab.files().join(format!("{interface}.pcap"));
        let mut command = lab.command("tcpdump");
        command.args(["-Z", "root", "-i", interface, "-s", "0", "-U", "-B", "16384"]);
        command.arg("--time-stamp-precision=nano").arg("-w").arg(&file).arg(filter);
        let mut tcpdump = lab.start(&format!("tcpdump-{interface}"), command)?;
        lab.wait_for("tcpdump captures", PATIENCE, |_| {
            tcpdump.must_run()?;
            Ok(tcpdump.stderr().contains("listening on").then_some(()))
        })?;
        Ok(Self { tcpdump, file })
    }

    /// Stops it; returns the times and the bytes of its packets.
    fn packets(mut self) -> anyhow::Result<Vec<(i64, Vec<u8>)>> {
        self.tcpdump.signal(Signal::INT);
        self.tcpdump.wait(PATIENCE).context("tcpdump does not end")?;
        read(&self.file)
    }
}

/// Reads a capture file with nanoseconds, in this machine's byte order.
fn read(file: &Path) -> anyhow::Result<Vec<(i64, Vec<u8>)>> {
    let bytes = fs::read(file)?;
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)) };
    ensure!(number(0) == Some(0xa1b2_3c4d), "no capture with nanoseconds");
    let (mut at, mut packets) = (24, Vec::new());
    while let (Some(seconds), Some(nanos), Some(size)) =
        (number(at), number(at + 4), number(at + 8))
    {
        let packet = bytes.get(at + 16..at + 16 + size as usize).context("a cut packet")?;
        packets.push((i64::from(seconds) * 1_000_000_000 + i64::from(nanos), packet.to_vec()));
        at += 16 + size as usize;
    }
    Ok(packets)
}

/// Finds the frame of ofbench in a packet or a message.
fn frame_in(bytes: &[u8]) -> Option<Frame> {
    let mark = bytes.windows(MARK.len()).position(|window| window == MARK)?;
    let number = |at: usize| bytes.get(mark + at..)?.first_chunk().copied().map(u32::from_be_bytes);
    Some((number(FLOW)?, number(SEQUENCE)?))
}

/// The times of the first packets of each frame.
fn frames(packets: &[(i64, Vec<u8>)]) -> Times {
    let mut times = Times::new();
    for (at, packet) in packets {
        if let Some(frame) = frame_in(packet) {
            times.entry(frame).or_insert(*at);
        }
    }
    times
}

/// The times of the segments that carry a frame in a packet-in, and in a packet-out. A flow-mod may precede the latter.
fn messages(packets: &[(i64, Vec<u8>)]) -> [Times; 2] {
    let mut times = [Times::new(), Times::new()];
    for (at, packet) in packets {
        // Ethernet, IPv4 and TCP, the latter with options.
        let Some(tcp) = packet.get(14 + 20..) else { continue };
        let head = usize::from(tcp.get(12).copied().unwrap_or(0) >> 4) * 4;
        let Some(mut stream) = tcp.get(head..) else { continue };
        while let Some(size) =
            stream.get(2..4).map(|size| usize::from(size[0]) << 8 | usize::from(size[1]))
        {
            let Some(message) = stream.get(..size).filter(|_| size >= 8) else { break };
            let which = [IS_PACKET_IN, IS_PACKET_OUT].iter().position(|kind| *kind == message[1]);
            if let (Some(which), Some(frame)) = (which, frame_in(message)) {
                times[which].insert(frame, *at);
            }
            stream = &stream[size..];
        }
    }
    times
}

/// Returns the median in microseconds of the time from one map to the other, for the frames of a measurement.
fn median(from: &Times, to: &Times, flows: u32) -> anyhow::Result<f64> {
    let of = |times: &Times| -> Vec<(Frame, i64)> {
        times.iter().filter(|(frame, _)| frame.0 >> 20 == flows).map(|(f, at)| (*f, *at)).collect()
    };
    let mut delays: Vec<i64> = of(from)
        .into_iter()
        .skip(WARM_UP)
        .filter_map(|(frame, begin)| Some(to.get(&frame)? - begin))
        .collect();
    ensure!(delays.len() >= RUNS - 5, "tcpdump has {} packets of {flows}", delays.len());
    delays.sort_unstable();
    let middle = delays.len() / 2;
    let sum = if delays.len() % 2 == 1 {
        2 * delays[middle]
    } else {
        delays[middle - 1] + delays[middle]
    };
    #[expect(clippy::cast_precision_loss, reason = "a second has fewer than 2^52 ns")]
    Ok(sum as f64 / 2000.0)
}

/// The median of a measured row.
fn row(result: &Value, name: &str) -> anyhow::Result<f64> {
    let rows = result["rows"].as_array().context("no rows")?;
    let row = rows.iter().find(|row| row["name"] == name);
    let row = row.with_context(|| format!("no row {name}: {result:#}"))?;
    row["median"].as_f64().with_context(|| format!("{row:#}"))
}

#[expect(clippy::print_stdout, reason = "shown with the test's result")]
fn agree(what: &str, ours: f64, tcpdump: f64, error: f64) -> anyhow::Result<()> {
    println!("{what}: ofbench {ours:.2} us, tcpdump {tcpdump:.2} us, stated error {error} us");
    ensure!((ours - tcpdump).abs() <= error, "{what}: ofbench {ours:.2}, tcpdump {tcpdump:.2} us");
    Ok(())
}

/// Measures a switch while tcpdump captures; compares what both saw.
fn compare(lab: &Lab, of: Of, tls: Option<&Pki<'_>>) -> anyhow::Result<()> {
    let switch = switch_between(lab, of)?;
    if let Some(pki) = tls {
        pki.switch("s1", &[])?.give_to(&switch)?;
    }
    let ours = "ether proto 0x0800 and udp";
    let dumps = [("in0", ours), ("out0", ours), ("lo", "tcp port 6653")];
    let dumps = dumps.map(|(interface, filter)| Dump::start(lab, interface, filter));
    let runs = RUNS.to_string();
    let ofbench = rosemary_binary().with_file_name("ofbench").display().to_string();
    let mut args =
        vec!["measure-switch", "--listen", "127.0.0.1:6653", "--in", "in0", "--out", "out0"];
    args.extend(["--only", "packet-in,flow-set-up", "--runs", &runs, "--seconds", "0.2", "--json"]);
    args.extend(tls.map(|pki| ["--tls", pki.dir()]).into_iter().flatten());
    let result: Value = serde_json::from_str(&lab.run(&ofbench, &args)?)?;
    let [input, output, control] = dumps.map(|dump| dump.and_then(Dump::packets));
    let (input, output) = (frames(&input?), frames(&output?));
    let error = |of: &str| result["calibration"][of].as_f64().context("no stated error");
    let (data, channel) = (error("data_path_error_us")?, error("control_path_error_us")?);
    for (name, flows) in [("packet-in, whole", PACKET_IN), ("flow set-up, whole", SET_UP)] {
        let ours = row(&result, &format!("{name}: data path"))?;
        agree(&format!("{name}: data path"), ours, median(&input, &output, flows)?, data)?;
    }
    ensure!(result["switch"]["tls"].is_string() == tls.is_some(), "{:#}", result["switch"]);
    if tls.is_some() {
        return Ok(()); // tcpdump does not see the messages
    }
    let [packet_ins, packet_outs] = messages(&control?);
    for (name, flows) in [("packet-in, whole", PACKET_IN), ("flow set-up, whole", SET_UP)] {
        let ours = row(&result, &format!("{name}: control path"))?;
        let theirs = median(&packet_ins, &packet_outs, flows)?;
        agree(&format!("{name}: control path"), ours, theirs, channel)?;
    }
    Ok(())
}

#[test]
fn figures_agree_with_tcpdump() {
    in_a_lab_without_capture(|lab| compare(lab, Of::V1_3, None));
    in_a_lab_without_capture(|lab| compare(lab, Of::V1_0, None));
}

#[test]
fn figures_over_tls_agree_with_tcpdump() {
    in_a_lab_without_capture(|lab| compare(lab, Of::V1_3, Some(&Pki::init(lab, "pki")?)));
}

/// Deleting flows slows the traffic down; an `ovs-vswitchd` that ends meanwhile gives no figure.
#[test]
fn killed_switch_gives_no_figure() {
    in_a_lab_without_capture(|lab| {
        let _switch = switch_between(lab, Of::V1_3)?;
        let ofbench = rosemary_binary().with_file_name("ofbench");
        let mut command = lab.command(ofbench);
        command.args([
            "measure-switch",
            "--listen",
            "127.0.0.1:6653",
            "--in",
            "in0",
            "--out",
            "out0",
        ]);
        command.args(["--only", "forwarding", "--runs", "100000", "--json"]);
        let mut running = lab.start("ofbench", command)?;
        lab.pause(Duration::from_secs(3))?;
        running.must_run()?;
        lab.run("ovs-vsctl", &["--timeout=10", "del-br", "s1"])?;
        let status = running.wait(Duration::from_secs(60)).context("ofbench goes on")?;
        ensure!(status.code() == Some(1), "{status}: {}", running.stderr());
        let result: Value = serde_json::from_str(&running.stdout())?;
        ensure!(result["ended"].is_string(), "{result:#}");
        let rows = result["rows"].as_array().context("no rows")?;
        ensure!(rows.iter().all(|row| row["status"] != "measured"), "{result:#}");
        Ok(())
    });
}
