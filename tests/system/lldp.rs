//! No app can send LLDP without `topology.probe`, in any encapsulation, through real Open vSwitch.
//! Open vSwitch recognises no frame as LLDP that Rosemary does not.
//!
//! The app is `apps/parrot.c`, which sends the messages that packets order.

use anyhow::ensure;
use cli::lab::{Lab, Of, Switch};
use openflow::ethernet::{LLDP, carries, packet};
use openflow::{Action, PacketOut, PortNo};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{Net, SOON};

use super::forbidden_messages::Order;

const TAG: [u8; 4] = [0x81, 0, 0, 7];
const SERVICE_TAG: [u8; 4] = [0x88, 0xa8, 0, 7];
const OLD_TAGS: [[u8; 4]; 2] = [[0x91, 0, 0, 7], [0x92, 0, 0, 7]];
const SNAP: [u8; 8] = [0, 60, 0xaa, 0xaa, 3, 0, 0, 0];
const BRIDGE_TUNNEL: [u8; 8] = [0, 60, 0xaa, 0xaa, 3, 0, 0, 0xf8];
const PBB: [u8; 18] = [0x88, 0xe7, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
/// A single MPLS label.
const MPLS: [u8; 6] = [0x88, 0x47, 0, 0, 0x11, 0x40];

/// Builds an LLDP frame: addresses, `before`, a type field unless `before` contains it, and a
/// system name.
fn lldp(before: &[u8], name: &str) -> Vec<u8> {
    let ethertype = LLDP.to_be_bytes();
    let ethertype = if before.ends_with(&MPLS) { &[][..] } else { &ethertype };
    let size = u8::try_from(name.len()).expect("a name is short");
    let tlvs: [&[u8]; 4] = [
        &[2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 2, 7, b'1', 6, 2, 0, 120, 10, size],
        name.as_bytes(),
        &[0; 2],
        &[0; 20],
    ];
    let start = [1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x66];
    let mut frame = [&start[..], before, ethertype, &tlvs.concat()].concat();
    // The length before SNAP is correct for tshark, which checks the capture.
    if let Some(at) = frame.windows(4).position(|it| it == &SNAP[..4]) {
        frame[at + 1] = u8::try_from(frame.len() - at - 2).expect("a frame is short");
    }
    frame
}

/// Name, the bytes before the LLDP type field, and actions before the output.
type Case = (&'static str, Vec<u8>, Vec<Action>);

fn cases() -> Vec<Case> {
    vec![
        ("plain", vec![], vec![]),
        ("tagged", TAG.to_vec(), vec![]),
        ("tagged-twice", [SERVICE_TAG, TAG].concat(), vec![]),
        ("old-tag", OLD_TAGS[0].to_vec(), vec![]),
        ("other-old-tag", OLD_TAGS[1].to_vec(), vec![]),
        ("snap", SNAP.to_vec(), vec![]),
        ("tagged-snap", [&TAG[..], &SNAP].concat(), vec![]),
        ("popped-tag", TAG.to_vec(), vec![Action::PopVlan]),
        ("popped-outer-tag", [SERVICE_TAG, TAG].concat(), vec![Action::PopVlan]),
        ("popped-tag-snap", [&TAG[..], &SNAP].concat(), vec![Action::PopVlan]),
        ("popped-mpls", MPLS.to_vec(), vec![Action::PopMpls(LLDP)]),
    ]
}

/// Makes the app send LLDP in every encapsulation to port 2, then a permitted packet. Returns the
/// names of the encapsulations that arrived at h2 as LLDP.
fn sent(lab: &Lab, capabilities: &str) -> anyhow::Result<Vec<&'static str>> {
    configure(&[&in_c(lab, "parrot", "apps/parrot.c", capabilities)?])?;
    let mut net = Net::start(lab, Of::V1_3)?;
    let at_h2 = net.h2.watch()?;
    let order = |actions: &[Action], data: &[u8]| -> anyhow::Result<()> {
        let actions = [actions, &[Action::output(PortNo(2))]].concat();
        let packet_out = PacketOut::new(PortNo::CONTROLLER, &actions, data);
        let order = Order::packet_out(&packet_out);
        send(&net.s1, &order.frame(), "controller")
    };
    let cases = cases();
    for (name, before, actions) in &cases {
        order(actions, &lldp(before, name))?;
    }
    order(&[], &[&[2; 12][..], &[0x88, 0xb5], &[0; 46]].concat())?;
    at_h2.wait_for(&["02:02:02:02:02:02", "0x88b5"], SOON)?;
    let arrived = |name: &str| !at_h2.seen(&["LLDP", name]).is_empty();
    let names = cases.iter().map(|(name, ..)| *name).filter(|name| arrived(name)).collect();
    let refused = net.switch_status()?.refused;
    println!("{refused} refused, arrived: {names:?}");
    Ok(names)
}

/// Makes the switch process a frame as if a controller sent it.
pub(super) fn send(switch: &Switch<'_>, frame: &[u8], actions: &str) -> anyhow::Result<()> {
    let bytes: Vec<String> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = bytes.concat();
    let packet_out = format!("in_port=controller packet={hex} actions={actions}");
    switch.ofctl(&["packet-out", &packet_out])?;
    Ok(())
}

#[test]
fn lldp_arrives_in_no_encapsulation_without_the_capability() {
    in_a_lab(|lab| {
        let names = sent(lab, "capabilities = [\"packet-out\", \"flow.write\"]")?;
        ensure!(names.is_empty(), "{names:?}");
        Ok(())
    });
}

#[test]
fn lldp_arrives_in_every_encapsulation_with_the_capability() {
    in_a_lab(|lab| {
        let names = sent(lab, "capabilities = [\"packet-out\", \"topology.probe\"]")?;
        let expected: Vec<_> = cases().into_iter().map(|(name, ..)| name).collect();
        ensure!(names == expected, "{names:?}");
        Ok(())
    });
}

#[test]
fn open_vswitch_agrees_on_lldp() {
    in_a_lab(|lab| {
        let s1 = lab.switch("s1", Of::V1_3)?;
        s1.stand_alone()?;
        s1.ofctl(&["del-flows"])?;
        s1.ofctl(&["add-flow", "dl_type=0x88cc,actions=drop"])?;
        let no_snap = [0, 60, 0xaa, 0xaa, 3, 0, 0, 1];
        let single: [&[u8]; 9] =
            [&[], &TAG, &SERVICE_TAG, &OLD_TAGS[0], &SNAP, &BRIDGE_TUNNEL, &PBB, &MPLS, &no_snap];
        let mut found = Vec::new();
        for outer in single {
            for inner in [&[][..], &TAG, &SNAP] {
                let before = [outer, inner].concat();
                let frame = lldp(&before, "");
                let counted = lldp_packets(&s1)?;
                send(&s1, &frame, "table")?;
                let is_lldp = lldp_packets(&s1)? > counted;
                ensure!(
                    carries(&frame, LLDP) || !is_lldp,
                    "{before:02x?} is LLDP for Open vSwitch"
                );
                if is_lldp {
                    // Behind one tag, SNAP, or both in this order, the two agree on the type.
                    ensure!(packet(&frame).is_some_and(|it| it.ethertype == LLDP), "{before:02x?}");
                    found.push(before);
                }
            }
        }
        println!("Open vSwitch finds LLDP behind {found:02x?}");
        for before in [&[][..], &TAG, &SERVICE_TAG, &SNAP, &[&TAG[..], &SNAP].concat()] {
            ensure!(found.iter().any(|it| it == before), "{before:02x?} hides it: {found:02x?}");
        }
        Ok(())
    });
}

/// Returns the number of packets that matched the LLDP flow.
fn lldp_packets(switch: &Switch<'_>) -> anyhow::Result<u64> {
    let flows = switch.dump_flows()?;
    let count = flows.iter().find_map(|flow| flow.split("n_packets=").nth(1)?.split(',').next());
    Ok(count.unwrap_or("0").parse()?)
}
