//! A switch that writes down what `ovs-ofctl` sends, and `ovs-ofctl` as a printer.

use rosemary_openflow::{Header, Kind, Version};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Returns the messages by which `ovs-ofctl` adds these flows in a format of flows, or `None` with a note without `ovs-ofctl`.
pub(crate) fn flows_of(
    version: Version,
    format: &str,
    texts: impl Iterator<Item = String>,
) -> Option<Vec<Vec<u8>>> {
    if !is_installed() {
        return None;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("nicira-{}-{number}.sock", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let listener = UnixListener::bind(&path).unwrap();
    let protocol = format!("OpenFlow1{}", version.wire() - 1);
    let mut ofctl = Command::new("ovs-ofctl")
        .args(["-O", &protocol, "--timeout=20", "--no-names", "-F", format, "add-flows"])
        .args([&format!("unix:{}", path.display()), "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let flows: Vec<String> = texts.collect();
    ofctl.stdin.take().unwrap().write_all(flows.join("\n").as_bytes()).unwrap();
    // It parses all flows before it connects, so a mistake in a text would leave this waiting.
    listener.set_nonblocking(true).unwrap();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => {
                assert!(ofctl.try_wait().unwrap().is_none(), "ovs-ofctl did not connect: {error}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    };
    stream.set_nonblocking(false).unwrap();
    let flows = serve(version, stream);
    assert!(ofctl.wait().unwrap().success());
    std::fs::remove_file(path).unwrap();
    Some(flows)
}

/// Answers until the other side closes; returns its flow-mods.
fn serve(version: Version, mut stream: UnixStream) -> Vec<Vec<u8>> {
    let mut flows = Vec::new();
    stream.write_all(&[version.wire(), 0, 0, 8, 0, 0, 0, 1]).unwrap();
    loop {
        let mut message = vec![0; Header::SIZE];
        if stream.read_exact(&mut message).is_err() {
            return flows;
        }
        let header = Header::decode(&message).unwrap();
        message.resize(header.length.into(), 0);
        stream.read_exact(&mut message[Header::SIZE..]).unwrap();
        let kind = Kind::from_wire(Version::from_wire(message[0]).unwrap(), message[1]).unwrap();
        match kind {
            Kind::BarrierRequest => {
                let reply = Kind::BarrierReply.to_wire(version).unwrap();
                message[1] = reply;
                stream.write_all(&message).unwrap();
            }
            Kind::FlowMod => flows.push(message),
            // Nicira's flow-mod; the message that selects the format is another one.
            Kind::Experimenter if message[12..16] == [0, 0, 0, 13] => flows.push(message),
            _ => {}
        }
        if let Some(xid) = flows.last_mut().and_then(|it| it.get_mut(4..8)) {
            xid.fill(0);
        }
    }
}

/// Returns the lines that `ovs-ofctl` prints about messages, or `None` with a note without it.
pub(crate) fn print(messages: &[Vec<u8>]) -> Option<Vec<String>> {
    let text = printed(messages)?;
    Some(text.lines().filter(|line| line.contains("_FLOW_MOD")).map(str::to_owned).collect())
}

fn printed(messages: &[Vec<u8>]) -> Option<String> {
    if !is_installed() {
        return None;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("nicira-{}-{number}.bin", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, messages.concat()).unwrap();
    let output = Command::new("ovs-ofctl").arg("ofp-parse").arg(&path).output().unwrap();
    std::fs::remove_file(path).unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

fn is_installed() -> bool {
    if Command::new("ovs-ofctl").arg("--version").output().is_ok() {
        return true;
    }
    assert!(
        std::env::var_os("ROSEMARY_REQUIRE_ALL").is_none(),
        "ovs-ofctl is not installed, and nothing may be skipped"
    );
    println!("SKIPPED: ovs-ofctl is not installed; type: apt-get install openvswitch-common");
    false
}

/// Like [`print`], all lines in one.
pub(crate) fn print_all(messages: &[Vec<u8>]) -> Option<String> {
    let lines = printed(messages)?;
    Some(lines.split_whitespace().collect::<Vec<_>>().join(" "))
}
