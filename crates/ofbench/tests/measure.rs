//! Measures switches that are honest, lie, reject, disconnect or stay silent. None of the latter may get a figure.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ofbench::measure::row::{Outcome, Unit};
use ofbench::measure::{self, Measured, Part, Plan};
use ofbench::switch::{Identity, Switch};
use openflow::{
    AggregateStats, Dpid, ErrorMessage, FlowMod, Header, Kind, MultipartReply, MultipartRequest,
    ReplyBody, Version, append,
};

/// How a switch misbehaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    Honest,
    /// Reports this number of flows.
    ReportsFlows(u32),
    /// Lists no flow.
    ListsNothing,
    /// Answers each flow-mod with an error.
    RejectsAll,
    /// Rejects flow-mods without an error.
    SwallowsAll,
    /// Disconnects at the flow-mod of this number.
    DisconnectsAt(usize),
    /// Answers no barrier request after the handshake.
    IsSilent,
    /// Sends bytes that are no OpenFlow.
    SendsGarbage,
}

const IDENTITY: Identity =
    Identity { dpid: Dpid(7), version: Version::V1_3, ports: 4, n_buffers: 0, max_flows: 150 };

/// Runs a switch until the controller closes the connection.
fn serve(address: SocketAddr, version: Version, behaviour: Behaviour) -> Option<()> {
    let mut socket = TcpStream::connect(address).unwrap();
    let mut switch = Switch::new(Identity { version, ..IDENTITY });
    let (mut input, mut buffer, mut flow_mods) = (Vec::new(), vec![0; 65536], 0);
    let mut out = Vec::new();
    switch.send_hello(&mut out);
    loop {
        socket.write_all(&out).ok()?;
        out.clear();
        let size = socket.read(&mut buffer).ok().filter(|size| *size > 0)?;
        input.extend_from_slice(&buffer[..size]);
        while let Ok(header) = Header::decode(&input) {
            let size = usize::from(header.length);
            if input.len() < size {
                break;
            }
            let message: Vec<u8> = input.drain(..size).collect();
            let kind = Kind::from_wire(version, header.kind);
            flow_mods += usize::from(kind == Ok(Kind::FlowMod));
            if behaviour == Behaviour::DisconnectsAt(flow_mods) {
                return None;
            }
            if !misbehave(behaviour, kind.ok(), &message, &mut out) {
                switch.receive(&message, &mut out).unwrap();
            }
        }
    }
}

/// Appends what a misbehaving switch answers; returns `false` if it behaves here.
fn misbehave(behaviour: Behaviour, kind: Option<Kind>, message: &[u8], out: &mut Vec<u8>) -> bool {
    let header = Header::decode(message).unwrap();
    let version = Version::from_wire(header.version).unwrap();
    let request = MultipartRequest::decode(message);
    let reply = |body, out: &mut Vec<u8>| {
        let reply = MultipartReply { more: false, body };
        append(out, |room| reply.encode(version, header.xid, room)).unwrap();
        true
    };
    match (behaviour, kind, request) {
        (Behaviour::ReportsFlows(flow_count), _, Ok(MultipartRequest::Aggregate(_))) => {
            let stats = AggregateStats { packet_count: 0, byte_count: 0, flow_count };
            reply(ReplyBody::Aggregate(stats), out)
        }
        (Behaviour::ListsNothing, _, Ok(MultipartRequest::Flow(_))) => {
            reply(ReplyBody::Flow(Vec::new()), out)
        }
        (Behaviour::RejectsAll, Some(Kind::FlowMod), _) => {
            let is_delete = FlowMod::decode(message).unwrap().command.is_delete();
            let error =
                ErrorMessage { version, kind: 5, code: 1, data: &message[..64.min(message.len())] };
            if !is_delete {
                append(out, |room| error.encode(header.xid, room)).unwrap();
            }
            !is_delete
        }
        (Behaviour::SwallowsAll, Some(Kind::FlowMod), _)
        | (Behaviour::IsSilent, Some(Kind::BarrierRequest), _) => true,
        (Behaviour::SendsGarbage, Some(Kind::FlowMod), _) => {
            out.extend([0, 0, 0, 0, 0, 0, 0, 0]);
            true
        }
        _ => false,
    }
}

fn plan(version: Version, parts: &[Part]) -> Plan {
    Plan {
        tls: None,
        versions: vec![version],
        interfaces: None,
        parts: parts.to_vec(),
        runs: 50,
        interval: Duration::from_millis(100),
        rates: vec![200.0],
        background: 3,
        spacing: Duration::from_millis(1),
        max_flows: 120,
        frame: 64,
        patience: Duration::from_secs(5),
    }
}

fn measured(version: Version, behaviour: Behaviour, parts: &[Part]) -> Measured {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let switch = thread::spawn(move || serve(address, version, behaviour));
    let stop = Arc::new(AtomicBool::new(false));
    let measured = measure::run(&listener, &plan(version, parts), &stop, &mut |_| ()).unwrap();
    switch.join().unwrap();
    measured
}

/// Asserts that no row has a figure, and that this text is in a reason.
fn assert_no_figure(measured: &Measured, text: &str) {
    let mut reasons: Vec<String> = measured.ended.iter().cloned().collect();
    for row in &measured.rows {
        match &row.outcome {
            Outcome::Measured(summary) => panic!("{}: {summary:?}", row.name),
            Outcome::Failed { reason } | Outcome::Skipped { reason } => {
                reasons.push(reason.clone());
            }
        }
    }
    assert!(reasons.iter().any(|reason| reason.contains(text)), "{reasons:?}");
    assert!(!measured.is_complete());
}

#[test]
fn honest_switch_gets_figures_in_every_version() {
    for &version in Version::ALL {
        let parts = [Part::FlowMod, Part::Statistics, Part::Capacity, Part::Rates];
        let measured = measured(version, Behaviour::Honest, &parts);
        assert_eq!(measured.ended, None);
        assert_eq!(measured.switch.of, version.to_string());
        for name in [
            "flow-mod, insert: barrier",
            "flow-mod, delete: barrier",
            "statistics, 100 flows: each flow",
            "statistics, 10 flows: ports",
            "rate, insert strict at 200/s",
            "rate, modify wildcard at 200/s",
            "rate, delete wildcard at 200/s",
        ] {
            let row = measured.row(name).unwrap_or_else(|| panic!("{name}: {measured:?}"));
            let summary = row.summary().unwrap_or_else(|| panic!("{row:?}"));
            assert!(summary.median > 0.0, "{row:?}");
        }
        let capacity = measured.row("table capacity").unwrap();
        assert!((capacity.summary().unwrap().median - 120.0).abs() < 0.5, "{capacity:?}");
        assert_eq!(capacity.unit, Unit::Flows);
        // What needs frames says so.
        let packet = measured.row("flow-mod, insert: packet").unwrap();
        assert!(matches!(&packet.outcome, Outcome::Skipped { reason } if reason.contains("--in")));
    }
}

#[test]
fn full_table_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let switch = thread::spawn(move || serve(address, Version::V1_3, Behaviour::Honest));
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Plan { max_flows: 5000, ..plan(Version::V1_3, &[Part::Capacity]) };
    let measured = measure::run(&listener, &plan, &stop, &mut |_| ()).unwrap();
    switch.join().unwrap();
    let row = measured.row("table capacity").unwrap();
    assert!((row.summary().unwrap().median - 150.0).abs() < 0.5, "{row:?}");
    assert!(row.notes[0].contains("TABLE_FULL"), "{row:?}");
}

#[test]
fn lies_in_statistics_give_no_figure() {
    let lie =
        measured(Version::V1_3, Behaviour::ReportsFlows(9), &[Part::Statistics, Part::Capacity]);
    assert_no_figure(&lie, "it reports 9 flows after it accepted 10");
    assert_no_figure(&lie, "it reports 9 flows after it accepted 120");
    let lie = measured(Version::V1_0, Behaviour::ListsNothing, &[Part::Statistics]);
    assert_no_figure(&lie, "it lists 0 flows after it accepted 10");
    let lie = measured(
        Version::V1_3,
        Behaviour::SwallowsAll,
        &[Part::Statistics, Part::Capacity, Part::Rates],
    );
    let reasons = format!("{:?}", lie.rows);
    assert!(reasons.contains("it reports 0 flows after it accepted 120"), "{reasons}");
    assert!(
        lie.rows.iter().all(|row| row.summary().is_none()
            || row.name.contains("delete") && row.unit == Unit::PerSecond),
        "{reasons}"
    );
}

#[test]
fn rejected_flow_mods_give_no_figure() {
    for &version in Version::ALL {
        let parts = [Part::FlowMod, Part::Statistics, Part::Capacity, Part::Rates];
        let rejected = measured(version, Behaviour::RejectsAll, &parts);
        assert_no_figure(&rejected, "flow-mods with an error, the first: ");
    }
}

#[test]
fn disconnected_switch_ends_the_measurement() {
    for at in [1, 2, 40] {
        let gone = measured(
            Version::V1_3,
            Behaviour::DisconnectsAt(at),
            &[Part::Statistics, Part::Capacity],
        );
        assert_no_figure(&gone, "disconnected");
        assert!(gone.ended.is_some() && gone.row("table capacity").is_none(), "{gone:?}");
    }
}

#[test]
fn garbage_and_silence_end_the_measurement() {
    assert_no_figure(
        &measured(Version::V1_3, Behaviour::SendsGarbage, &[Part::FlowMod]),
        "not a valid header",
    );
    // The measurement ends after the time limit of a reply and of the recovery.
    let silent = measured(Version::V1_3, Behaviour::IsSilent, &[Part::FlowRemoved]);
    assert_no_figure(&silent, "no barrier_reply within 5s");
}
