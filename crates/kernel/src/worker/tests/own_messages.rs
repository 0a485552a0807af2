//! Tests that a message of the kernel's own that a switch refuses or loses is repeated and reported.

use openflow::FlowMod;

use super::*;
use crate::rewrite::{KERNEL, owner};
use control::query::FailingMessage;

/// The error `FLOW_MOD_FAILED/TABLE_FULL`, without its transaction id.
const TABLE_FULL: [u8; 12] = [4, 1, 0, 12, 0, 0, 0, 0, 0, 5, 0, 1];

/// A switch that replies to barriers, and refuses the table-miss entry.
struct Refusing {
    fake: FakeSwitch,
    refuses: bool,
    /// How often the kernel has sent the table-miss entry.
    entries: usize,
}

impl Refusing {
    /// Handles the messages that have come.
    fn answer(&mut self) {
        while let Ok(message) = self.fake.received.try_recv() {
            let header = Header::decode(&message).unwrap();
            if Kind::from_wire(OF, header.kind) == Ok(Kind::BarrierRequest) {
                let mut reply = Vec::new();
                append(&mut reply, |out| Kind::BarrierReply.encode_empty(OF, header.xid, out))
                    .unwrap();
                self.fake.socket.write_all(&reply).unwrap();
            }
            let Ok(flow_mod) = FlowMod::decode(&message) else { continue };
            if owner(flow_mod.cookie) == KERNEL && flow_mod.priority == 0 {
                self.entries += 1;
                let mut error = TABLE_FULL;
                error[4..8].copy_from_slice(&message[4..8]);
                if self.refuses {
                    self.fake.socket.write_all(&error).unwrap();
                }
            }
        }
    }

    /// Handles messages until the shown failure of the table-miss entry is as `is_right` says.
    fn wait(
        &mut self,
        bench: &Bench,
        what: &str,
        is_right: impl Fn(Option<FailingMessage>) -> bool,
    ) {
        wait_for(what, || {
            self.answer();
            let mut failing = bench.switches().remove(0).failing.into_iter();
            let entry = failing.find(|it| it.message == "the table-miss entry");
            is_right(entry).then_some(())
        });
    }
}

#[test]
fn refused_table_miss_entry_is_repeated_shown_and_reported() {
    let bench = Bench::new(1);
    let fake = bench.connect([1]).remove(0);
    let mut switch = Refusing { fake, refuses: true, entries: 0 };
    switch.wait(&bench, "the second attempt failed", |failing| {
        let why = "it refused it with FLOW_MOD_FAILED/TABLE_FULL";
        failing.is_some_and(|it| it.tries == 2 && it.why == why)
    });
    assert_eq!(switch.entries, 2);
    switch.refuses = false;
    switch.wait(&bench, "the entry was accepted", |failing| failing.is_none());
    assert_eq!(switch.entries, 3);
    let mut reports = Vec::new();
    wait_for("both reports came", || {
        match bench.server.events.try_recv().ok()? {
            WorkerEvent::MessageFailed(failed) if failed.message == "the table-miss entry" => {
                reports.push(format!("{} fails: {}", failed.dpid, failed.why));
            }
            WorkerEvent::MessageRecovered { message, .. } if message == "the table-miss entry" => {
                reports.push("recovered".to_owned());
            }
            _ => {}
        }
        (reports.len() == 2).then_some(())
    });
    let fails = "00:00:00:00:00:00:00:01 fails: it refused it with FLOW_MOD_FAILED/TABLE_FULL";
    assert_eq!(reports, [fails, "recovered"]);
    bench.stop();
}

/// The message that completes the handshake has no reply of its own: the first entries must not wait for a tick, as packets are
/// dropped until then.
#[test]
fn table_miss_entry_follows_the_handshake_at_once() {
    let bench = Bench::new(1);
    let mut times: Vec<Duration> = (1..=11)
        .map(|dpid| {
            let fake = FakeSwitch::connect(bench.address, dpid);
            let is = |message: &[u8], kind| Kind::from_wire(OF, message[1]) == Ok(kind);
            let received = || fake.received.recv_timeout(TEST_TIMEOUT).unwrap();
            while !is(&received(), Kind::MultipartRequest) {}
            let complete = Instant::now();
            while !is(&received(), Kind::FlowMod) {}
            complete.elapsed()
        })
        .collect();
    times.sort();
    assert!(times[5] < Duration::from_millis(20), "a tick has 100 ms: {times:?}");
    bench.stop();
}
