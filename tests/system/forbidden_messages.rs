//! Forbidden messages of an app are not sent: the app receives the reason, the operator has a
//! record, and the switch receives nothing. There is a test for each rule of `sdk::Refusal`.
//!
//! The app is `apps/parrot.c`, which sends what a packet orders. The switch is a [`Fake`], so that
//! every received byte is checked.

use std::time::Duration;

use anyhow::ensure;
use cli::lab::{Lab, Rosemary};
use openflow::{
    Action, Bucket, EncodeError, FlowMod, GroupKind, GroupMod, GroupModCommand, Header, Kind,
    Match, PacketOut, PortNo, Version, append,
};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::{APP, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};

const OF: Version = Version::V1_3;

/// A priority in the offender's band.
const PRIORITY: u16 = 150;

/// Default policy of the offender.
const POLICY: &str = "band = [100, 200]\ncapabilities = [\"packet-out\", \"flow.write\"]";

const LEARNING_SWITCH: &str = "[[app]]\nname = \"learning-switch\"\nethertypes = [0x0800]\n";

/// An order to the app, carried by a packet.
pub(crate) struct Order {
    pub(super) dpid: u64,
    pub(super) epoch: i64,
    pub(super) count: u32,
    pub(super) message: Vec<u8>,
}

impl Order {
    /// Orders to send `message` once to the switch.
    pub(crate) fn to_say(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Self {
        let mut message = Vec::new();
        append(&mut message, encode).expect("the version can say it");
        Self { dpid: 0, epoch: 0, count: 1, message }
    }

    fn flow_mod(flow_mod: &FlowMod<'_>) -> Self {
        Self::to_say(|out| flow_mod.encode(OF, 1, out))
    }

    pub(crate) fn packet_out(packet_out: &PacketOut<'_>) -> Self {
        Self::to_say(|out| packet_out.encode(OF, 1, out))
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x88, 0xb5]); // reserved for experiments (IEEE 802-2014 §9.2.4)
        frame.extend(b"ROSESAYS");
        frame.extend(self.dpid.to_be_bytes());
        frame.extend(self.epoch.to_be_bytes());
        frame.extend(self.count.to_be_bytes());
        frame.extend(&self.message);
        frame
    }
}

/// A flow that the app may add.
fn allowed() -> FlowMod<'static> {
    FlowMod::add(Match::new().in_port(PortNo(1))).priority(PRIORITY)
}

/// Rosemary with the offender as its only app, and a switch.
struct Testbed<'lab> {
    rosemary: Rosemary<'lab>,
    fake: Fake,
}

impl<'lab> Testbed<'lab> {
    fn open(lab: &'lab Lab, version: Version, keys: &str, more: &str) -> anyhow::Result<Self> {
        configure(&[&in_c(lab, "parrot", "apps/parrot.c", keys)?, more])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut fake = Fake::connect(version, 0x2a)?;
        let dpid = fake.dpid();
        rosemary.wait_for("the switch connects", SOON, |status| {
            fake.answer_for(Duration::from_millis(50));
            status.switch(&dpid).map(drop)
        })?;
        lab.wait_for("the barrier behind the kernel's own messages", SOON, |_| {
            fake.answer_for(Duration::from_millis(20));
            Ok(fake.confirm().ok().filter(|is_done| *is_done).map(drop))
        })?;
        fake.received.clear();
        Ok(Self { rosemary, fake })
    }

    /// Carries out the order. It must be refused with `number`, a value of `ROSEMARY_REFUSED_*`,
    /// and logged with `why`. `fake.received` contains what the switch received.
    fn refuses(&mut self, order: &Order, number: u8, why: &str) -> anyhow::Result<()> {
        self.fake.answer_for(Duration::from_millis(100)); // the rest of the handshake
        self.fake.received.clear();
        self.fake.packet_in(&order.frame())?;
        let app = format!("was refused for reason {number}");
        println!("{}", self.rosemary.wait_for_log(&["app: parrot", &app], SOON)?);
        let record = ["refused a message of an app", "app=\"parrot\"", why];
        println!("{}", self.rosemary.wait_for_log(&record, SOON)?);
        Ok(())
    }

    /// Returns the kinds of the messages received by the switch, except the kernel's periodic ones:
    /// echo requests and table statistics requests.
    fn received(&mut self) -> Vec<Kind> {
        const TABLES: [u8; 2] = [0, 3]; // OFPMP_TABLE, OpenFlow 1.3.5 §7.3.5
        self.fake.answer_for(Duration::from_millis(300));
        let version = self.fake.version();
        let kind = |message: &Vec<u8>| {
            let kind = Kind::from_wire(version, Header::decode(message).ok()?.kind).ok()?;
            let about_tables =
                kind == Kind::MultipartRequest && message.get(8..10) == Some(&TABLES[..]);
            (kind != Kind::EchoRequest && !about_tables).then_some(kind)
        };
        self.fake.received.iter().filter_map(kind).collect()
    }
}

/// Checks that the order is refused and that the switch receives nothing.
fn refused(order: Order, number: u8, why: &'static str) {
    in_a_lab(move |lab| {
        let version = if order.message[0] == OF.wire() { OF } else { Version::V1_0 };
        let more = if version == OF { "" } else { LEARNING_SWITCH };
        let mut testbed = Testbed::open(lab, version, POLICY, more)?;
        testbed.refuses(&order, number, why)?;
        assert_eq!(testbed.received(), [], "nothing but the kernel's own comes to the switch");
        let status = testbed.rosemary.wait_for("it answers", SOON, |it| Some(it.clone()))?;
        let switch = status.switch(&testbed.fake.dpid()).map(|switch| switch.refused);
        assert_eq!(switch, Some(u64::from(order.dpid == 0)), "counted with its switch");
        // A permitted message is still sent.
        let allowed = Order::to_say(|out| allowed().encode(version, 1, out));
        testbed.fake.packet_in(&allowed.frame())?;
        assert_eq!(testbed.received(), [Kind::FlowMod]);
        Ok(())
    });
}

#[test]
fn message_to_unknown_switch_is_refused() {
    let order = Order { dpid: 0xdead, ..Order::flow_mod(&allowed()) };
    refused(order, 1, "no such switch is connected");
}

#[test]
fn message_for_another_epoch_is_refused() {
    let order = Order { epoch: -1, ..Order::flow_mod(&allowed()) };
    refused(order, 2, "has reconnected since");
}

#[test]
fn truncated_message_is_refused() {
    let mut order = Order::flow_mod(&allowed());
    order.message.truncate(50);
    refused(order, 3, "not a well-formed message");
}

#[test]
fn excess_pending_requests_are_refused() {
    in_a_lab(|lab| {
        let mut testbed = Testbed::open(lab, OF, POLICY, "")?;
        let barrier = Order::to_say(|out| Kind::BarrierRequest.encode_empty(OF, 1, out));
        for _ in 0..64 {
            testbed.fake.packet_in(&barrier.frame())?; // it never answers
        }
        let came = testbed.received().into_iter().filter(|kind| *kind == Kind::BarrierRequest);
        assert_eq!(came.count(), 64, "as many as may wait");
        testbed.refuses(&barrier, 14, "too many requests wait for the switch's answer")?;
        assert!(!testbed.received().contains(&Kind::BarrierRequest));
        Ok(())
    });
}

#[test]
fn kernel_only_message_is_refused() {
    let features = Order::to_say(|out| Kind::FeaturesRequest.encode_empty(OF, 1, out));
    // OFPT_ROLE_REQUEST for OFPCR_ROLE_SLAVE (OpenFlow 1.3.5 §7.3.9)
    let mut role = vec![4, 24, 0, 24, 0, 0, 0, 1, 0, 0, 0, 3];
    role.resize(24, 0);
    let role = Order { message: role, ..Order::flow_mod(&allowed()) };
    for order in [features, role] {
        refused(order, 4, "of a kind that applications may not send");
    }
}

#[test]
fn message_without_capability_is_refused() {
    let group = GroupMod {
        command: GroupModCommand::Add,
        kind: GroupKind::All,
        group_id: 1,
        buckets: vec![Bucket::new([Action::output(PortNo(1))])],
    };
    let order = Order::to_say(|out| group.encode(OF, 1, out));
    refused(order, 6, "lacks the capability that this message needs");
}

#[test]
fn priority_outside_the_band_is_refused() {
    for priority in [99, 201] {
        let order = Order::flow_mod(&allowed().priority(priority));
        refused(order, 7, "its priority is outside the app's band");
    }
}

#[test]
fn cookie_with_owner_bits_is_refused() {
    let order = Order::flow_mod(&allowed().cookie(1 << 48));
    refused(order, 8, "its cookie has more than the app's 48 bits");
}

#[test]
fn ambiguous_delete_of_openflow_1_0_is_refused() {
    let delete = FlowMod::delete(Match::new()).priority(PRIORITY);
    let order = Order::to_say(|out| delete.encode(Version::V1_0, 1, out));
    refused(order, 9, "it could touch flows of others");
}

#[test]
fn group_of_another_app_is_refused() {
    let to_group = [Action::Group(1)];
    refused(Order::flow_mod(&allowed().apply(&to_group)), 10, "not the app's own");
}

#[test]
fn foreign_buffer_is_refused() {
    let out = [Action::output(PortNo(1))];
    let order = Order::packet_out(&PacketOut::buffered(PortNo(1), &out, 0x1234));
    refused(order, 11, "its buffer was not given to the app");
}

#[test]
fn experimenter_without_grant_is_refused() {
    // The beginning of Open vSwitch's `learn` action, which would write flows past every check.
    let learn = Action::Experimenter { experimenter: 0x2320, data: [0, 16, 0, 0].into() };
    let order = Order::flow_mod(&allowed().apply(std::slice::from_ref(&learn)));
    refused(order, 12, "may not be used");
}

#[test]
fn messages_above_the_rate_limit_are_refused() {
    in_a_lab(|lab| {
        let keys = format!("{POLICY}\nlimits = {{ flow-mods-per-second = 5 }}");
        let mut testbed = Testbed::open(lab, OF, &keys, "")?;
        let order = Order { count: 50, ..Order::flow_mod(&allowed()) };
        testbed.refuses(&order, 13, "more messages in a second than the operator allows")?;
        let came = testbed.received().into_iter().filter(|kind| *kind == Kind::FlowMod).count();
        println!("{came} of 50 came to the switch");
        // They are sent at once, but a second may end in the meantime.
        ensure!((5..=10).contains(&came), "{came} came to the switch");
        Ok(())
    });
}

#[test]
fn messages_to_a_full_switch_are_refused() {
    in_a_lab(|lab| {
        let mut testbed = Testbed::open(lab, OF, POLICY, "")?;
        let (out, data) = ([Action::output(PortNo(1))], vec![7; 50_000]);
        let order = Order::packet_out(&PacketOut::new(PortNo(2), &out, &data));
        // More than the socket buffers hold; the switch does not read from here on.
        let order = Order { count: 500, ..order };
        testbed.refuses(&order, 5, "too many messages wait to be sent to the switch")
    });
}

#[test]
fn app_without_packet_out_capability_sends_none() {
    in_a_lab(|lab| {
        let keys = "band = [100, 200]\ncapabilities = [\"flow.write\"]";
        let mut testbed = Testbed::open(lab, OF, keys, &format!("[[app]]\nname = \"{APP}\"\n"))?;
        let out = [Action::output(PortNo(1))];
        let order = Order::packet_out(&PacketOut::new(PortNo(2), &out, b"no packet at all"));
        testbed.refuses(&order, 6, "lacks the capability that this message needs")
    });
}
