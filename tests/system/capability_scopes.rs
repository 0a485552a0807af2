//! Capabilities with a scope: an app acts on the switches that its grants name, and on no others. A
//! refusal names the message, the missing capability and the line that grants it.
//!
//! The app is `apps/parrot.c`, which sends what a packet orders, to any switch.

use std::time::Duration;

use cli::lab::{Lab, Rosemary};
use openflow::{Action, FlowMod, Kind, Match, MultipartRequest, PacketOut, PortNo, Version};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

use crate::forbidden_messages::Order;

const OF: Version = Version::V1_3;

/// The switch that the grants name, and another.
const GRANTED: u64 = 0x2a;
const OTHER: u64 = 0x2b;

/// Time in which a switch answers the controller.
const TURN: Duration = Duration::from_millis(50);

struct Testbed<'lab> {
    rosemary: Rosemary<'lab>,
    granted: Fake,
    other: Fake,
}

impl<'lab> Testbed<'lab> {
    fn open(lab: &'lab Lab, capabilities: &str) -> anyhow::Result<Self> {
        let keys = format!("capabilities = [{capabilities}]");
        configure(&[&in_c(lab, "parrot", "apps/parrot.c", &keys)?])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let (mut granted, mut other) = (Fake::connect(OF, GRANTED)?, Fake::connect(OF, OTHER)?);
        rosemary.wait_for("both switches connect", SOON, |status| {
            granted.answer_for(TURN);
            other.answer_for(TURN);
            status.switch(&granted.dpid()).and(status.switch(&other.dpid())).map(drop)
        })?;
        Ok(Self { rosemary, granted, other })
    }

    /// Waits until a switch has received a message of this kind that an app sent.
    fn wait_for(&mut self, fake: fn(&mut Self) -> &mut Fake, kind: Kind) -> anyhow::Result<()> {
        let wire = kind.to_wire(OF);
        let arrived = |message: &[u8]| message.get(1).copied() == wire;
        for _ in 0..SOON.as_millis() / TURN.as_millis() {
            let fake = fake(self);
            fake.answer_for(TURN);
            if fake.received.iter().any(|it| arrived(it) && !is_table_miss(it)) {
                return Ok(());
            }
        }
        anyhow::bail!("no {kind:?} arrived")
    }
}

fn flow_mod() -> Order {
    let flow_mod = FlowMod::add(Match::new().in_port(PortNo(1))).priority(150);
    Order::to_say(|out| flow_mod.encode(OF, 1, out))
}

#[test]
fn scoped_app_acts_on_granted_switch_only() {
    in_a_lab(|lab| {
        let dpid = "dpids = [\"00:00:00:00:00:00:00:2a\"]";
        let capabilities = format!(
            "{{ packet-in = {{ {dpid} }} }}, {{ flow.write = {{ {dpid}, tables = [0] }} }}, \
             \"packet-out\""
        );
        let mut testbed = Testbed::open(lab, &capabilities)?;

        // A packet of the other switch does not reach the app, so the order in it is not obeyed.
        let out = [Action::output(PortNo(1))];
        let unseen = Order::packet_out(&PacketOut::new(PortNo(2), &out, b"a packet of no use"));
        testbed.other.packet_in(&unseen.frame())?;

        // A flow for the other switch is refused, one for the granted switch is sent.
        let foreign = Order { dpid: OTHER, ..flow_mod() };
        testbed.granted.packet_in(&foreign.frame())?;
        let added = format!(
            "{{ flow.write = {{ dpids = [\"{}\"], tables = [0] }} }}",
            testbed.other.dpid()
        );
        let needs = format!("was refused for reason 6: flow_mod needs {added}");
        println!("{}", testbed.rosemary.wait_for_log(&["app: parrot", &quoted(&needs)], SOON)?);
        let record = ["refused a message of an app", "app=\"parrot\"", "kind=flow_mod", &added];
        println!("{}", testbed.rosemary.wait_for_log(&record, SOON)?);
        testbed.granted.packet_in(&flow_mod().frame())?;
        testbed.wait_for(|it| &mut it.granted, Kind::FlowMod)?;

        testbed.other.answer_for(TURN);
        let kinds = [Kind::FlowMod, Kind::PacketOut].map(|kind| kind.to_wire(OF));
        let is_of_app = |message: &&Vec<u8>| {
            kinds.contains(&message.get(1).copied()) && !is_table_miss(message)
        };
        let foreign = testbed.other.received.iter().find(is_of_app);
        assert_eq!(foreign, None, "the other switch receives nothing of the app");
        Ok(())
    });
}

/// Returns a text as the log shows it in an app's line.
fn quoted(text: &str) -> String {
    text.replace('"', "\\\"")
}

/// Whether this is the kernel's own flow-mod.
fn is_table_miss(message: &[u8]) -> bool {
    FlowMod::decode(message).is_ok_and(|it| it.cookie >> 48 == 0xffff)
}

#[test]
fn refused_statistics_name_the_line_to_write() {
    in_a_lab(|lab| {
        let mut testbed = Testbed::open(lab, "\"packet-in\", \"packet-out\"")?;
        let order = Order::to_say(|out| MultipartRequest::Table.encode(OF, 1, out));
        testbed.granted.packet_in(&order.frame())?;
        let line = "capabilities = [\"packet-in\", \"packet-out\", \"stats.read\"]";
        let needs = "multipart_request of type 3 (tables) needs stats.read";
        println!(
            "{}",
            testbed.rosemary.wait_for_log(&["app: parrot", needs, &quoted(line)], SOON)?
        );
        let record = ["refused a message of an app", "missing=stats.read", "remedy=", line];
        println!("{}", testbed.rosemary.wait_for_log(&record, SOON)?);
        Ok(())
    });
}

#[test]
fn list_without_packet_in_works_with_a_warning() {
    in_a_lab(|lab| {
        let mut testbed = Testbed::open(lab, "\"flow.write\"")?;
        let line = "capabilities = [\"packet-in\", \"flow.write\"]";
        println!("{}", testbed.rosemary.wait_for_log(&["lacks \"packet-in\"", line], SOON)?);
        testbed.granted.packet_in(&flow_mod().frame())?;
        testbed.wait_for(|it| &mut it.granted, Kind::FlowMod)
    });
}
