//! Tests misbehaving apps in the worker's own process.

use openflow::{PacketOut, PortNo};
use sdk::{App, Batch, Event, Network};

use super::*;

/// Sends a message for each batch that begins with a packet-in, and handles no record.
struct OnlySends;

impl App for OnlySends {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        let Some(packet_in) = batch.packet_in(0) else { return batch.len().min(1) };
        let packet_out = PacketOut::new(PortNo(1), &[], b"four");
        network.packet_out(packet_in.switch, &packet_out).unwrap();
        0
    }
}

#[test]
fn app_that_only_sends_does_not_block_its_worker() {
    let bench = Bench::with(1, |worker| {
        worker.dispatch.app_ports[0].host_linked::<OnlySends>();
        worker.pump(Instant::now());
    });
    let mut fake = bench.connect([7]).pop().unwrap();
    let burst: Vec<u8> = (0..=255).chain(0..=255).flat_map(packet_in).collect();
    fake.socket.write_all(&burst).unwrap();
    let (reply, answers) = std::sync::mpsc::channel::<(Vec<SwitchStatus>, bool)>();
    let taken = || {
        bench.each(|| Command::Switches { after: None, reply: reply.clone() });
        let (switches, _) = answers.recv_timeout(TEST_TIMEOUT).expect("the worker answers");
        switches.first().map_or(0, |switch| switch.packet_ins)
    };
    wait_for("all were read", || (taken() == 512).then_some(()));
    bench.stop();
}
