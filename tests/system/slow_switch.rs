//! A switch that does not read and an app that floods it: other apps still reach the switch.
//!
//! Both apps are `apps/parrot.c`; each receives orders for the slow switch through a switch of its
//! own.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use config::instance::InstancePaths;
use control::query::AppCounters;
use openflow::{Dpid, Kind, PacketOut, PortNo, Version};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab_without_capture, rosemary_binary};

use crate::forbidden_messages::Order;

const OF: Version = Version::V1_3;
const SLOW: u64 = 0x2a;

/// More messages of [`LONG`] bytes than a slow switch's socket and output queue hold.
const FLOOD: u32 = 400;
const LONG: usize = 60_000;

#[test]
fn flooder_does_not_block_other_apps() {
    in_a_lab_without_capture(|lab| {
        let keys = |dpid| format!("dpids = [\"{}\"]\ncapabilities = [\"packet-out\"]", Dpid(dpid));
        configure(&[
            &in_c(lab, "flooder", "apps/parrot.c", &keys(1))?,
            &in_c(lab, "other", "apps/parrot.c", &keys(2))?,
        ])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut slow = Fake::connect(OF, SLOW)?;
        let (mut of_flooder, mut of_other) = (Fake::connect(OF, 1)?, Fake::connect(OF, 2)?);
        let mut epochs = Vec::new();
        for fake in [&mut slow, &mut of_flooder, &mut of_other] {
            let dpid = fake.dpid();
            epochs.push(rosemary.wait_for("the switch connects", SOON, |status| {
                fake.answer_for(Duration::from_millis(50));
                Some(status.switch(&dpid)?.epoch)
            })?);
        }
        let order = |of: usize, count, data: &[u8]| {
            let packet_out = PacketOut::new(PortNo(1), &[], data);
            let to_say = Order::to_say(|out| packet_out.encode(OF, 1, out));
            let epoch = i64::from(epochs[0]) - i64::from(epochs[of]);
            Order { dpid: SLOW, epoch, count, ..to_say }.frame()
        };
        slow.received.clear();
        of_flooder.packet_in(&order(1, FLOOD, &vec![7; LONG]))?;
        let record =
            ["refused a message of an app", "app=\"flooder\"", "most_queued_by=\"flooder\""];
        println!("{}", rosemary.wait_for_log(&record, SOON)?);
        of_other.packet_in(&order(2, 1, b"the other's"))?;
        let counters = |name: &str| -> anyhow::Result<AppCounters> {
            let monitor = cli::client::connect(&InstancePaths::default())?;
            monitor
                .kernel()?
                .apps()?
                .into_iter()
                .find(|app| app.name == name)
                .context("it is configured")
        };
        // It may leave at once, as the system makes more room for a socket by and by.
        rosemary.wait_for("the other's message is accepted", SOON, |_| {
            counters("other").ok().filter(|it| it.packet_outs > 0 || it.refused > 0)
        })?;
        let (flooder, other) = (counters("flooder")?, counters("other")?);
        println!("{flooder:?}\n{other:?}");
        ensure!(other.refused == 0, "{other:?}");
        ensure!(flooder.refused > 0 && flooder.unsent > 100 * other.unsent, "{flooder:?}");
        // Once it reads, all accepted messages arrive; the other app's precedes most of the
        // flooder's.
        let is_others = |message: &Vec<u8>| message.ends_with(b"the other's");
        rosemary.wait_for("the messages come", SOON, |_| {
            slow.answer_for(Duration::from_millis(200));
            let unsent = counters("flooder").ok()?.unsent;
            (slow.received.iter().any(is_others) && unsent == 0).then_some(())
        })?;
        slow.answer_for(Duration::from_millis(200));
        let is_packet_out =
            |message: &&Vec<u8>| Kind::from_wire(OF, message[1]) == Ok(Kind::PacketOut);
        let behind =
            slow.received.iter().rev().filter(is_packet_out).take_while(|it| !is_others(it));
        let behind = behind.count();
        ensure!(slow.received.iter().all(|it| it[0] == OF.wire()), "a message is torn");
        println!("{behind} messages of the flooder came behind the other's");
        ensure!(behind >= 5, "{behind}");
        Ok(())
    });
}
