//! Lends a host to code of this process, so that it uses the SDK's clients without an object: [`lend`].
//!
//! The native module of the Python SDK calls it. An app in an object receives its [`Network`] from the C ABI.

use std::cell::UnsafeCell;
use std::os::fd::OwnedFd;

use super::guest;
use super::host::{Host, Inner, functions};
use super::{HostFunctions, Level};
use crate::network::Network;
use crate::services::table::Slot;
use crate::services::{AskError, RequestId, Service};
use crate::serving::ClientRequest;

/// The result of [`lend`].
#[derive(Debug)]
pub struct Returned<H, T> {
    /// The host.
    pub host: H,
    /// The result of the function.
    pub result: T,
    /// When the timer that it set expires, in nanoseconds of the monotonic clock.
    pub wake_at_ns: Option<u64>,
}

/// Calls `with` with a [`Network`] that sends through `host`, and returns the host.
///
/// `last_xid` is the transaction id of the last message; the function advances it. [`Network::stop`] has no effect, as there
/// is no batch.
pub fn lend<H: Host, T>(
    host: H,
    last_xid: &mut u32,
    now_ns: u64,
    with: impl FnOnce(&mut Network<'_>) -> T,
) -> Returned<H, T> {
    let table = functions(&host);
    let inner = UnsafeCell::new(Inner::new(host));
    let table = HostFunctions { context: inner.get().cast(), ..table };
    let mut guest = guest::Host::after(&raw const table, *last_xid);
    let mut network = Network::new(&mut guest, now_ns);
    let result = with(&mut network);
    let wake_at_ns = Some(network.wake_at_ns()).filter(|it| *it != u64::MAX);
    guest.end_series();
    *last_xid = guest.last_xid();
    Returned { host: inner.into_inner().host, result, wake_at_ns }
}

impl<H: Host> Host for Box<H> {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        (**self).reserve(size)
    }

    fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        (**self).commit(dpid, epoch, size, series)
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn band(&self) -> (u16, u16) {
        (**self).band()
    }

    fn groups(&self) -> (u32, u32) {
        (**self).groups()
    }

    fn meters(&self) -> (u32, u32) {
        (**self).meters()
    }

    fn config(&self) -> &[u8] {
        (**self).config()
    }

    fn stop(&mut self, number: usize) {
        (**self).stop(number);
    }

    fn log(&mut self, level: Level, text: &str) {
        (**self).log(level, text);
    }

    fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        (**self).ask(service, request)
    }

    fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        (**self).take(request)
    }

    fn read_table(&self, service: Service, first: u32, records: &mut [Slot]) -> Option<u64> {
        (**self).read_table(service, first, records)
    }

    fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        (**self).publish(slot, record)
    }

    fn answer(&mut self, request: ClientRequest, more: bool, body: &[u8]) {
        (**self).answer(request, more, body);
    }

    fn report_incident(&mut self, summary: &str, evidence: &str) {
        (**self).report_incident(summary, evidence);
    }

    fn set_problem(&mut self, text: &str) {
        (**self).set_problem(text);
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Dpid, Version};

    use super::*;
    use crate::Switch;

    /// A host that keeps the last message and the last request.
    #[derive(Debug, Default)]
    struct Kept {
        room: Vec<u8>,
        messages: Vec<Vec<u8>>,
        requests: Vec<(Service, Vec<u8>)>,
    }

    impl Host for Kept {
        fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
            self.room.resize(size, 0);
            Some(&mut self.room)
        }

        fn commit(&mut self, _dpid: u64, _epoch: u32, size: usize, _series: u32) -> bool {
            self.messages.push(self.room[..size].to_vec());
            true
        }

        fn room(&self) -> usize {
            64
        }

        fn band(&self) -> (u16, u16) {
            (1, 9)
        }

        fn groups(&self) -> (u32, u32) {
            (0, 0)
        }

        fn meters(&self) -> (u32, u32) {
            (0, 0)
        }

        fn config(&self) -> &[u8] {
            &[]
        }

        fn stop(&mut self, _number: usize) {
            panic!("there is no batch")
        }

        fn log(&mut self, _level: Level, _text: &str) {}

        fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
            self.requests.push((service, request.to_vec()));
            Ok(RequestId(7))
        }
    }

    #[test]
    fn lent_host_returns_with_messages_requests_and_timer() {
        let (switch, mut xid) = (Switch { dpid: Dpid(1), epoch: 2, version: Version::V1_3 }, 40);
        let returned = lend(Box::new(Kept::default()), &mut xid, 1_000, |network| {
            network.stop();
            network.wake_at(network.now() * 2);
            network.barrier(switch).unwrap();
            let request = network.ask_service(Service::Topology, b"drain");
            (network.own_numbers().priorities, request)
        });
        assert_eq!(returned.result, ((1, 9), Ok(RequestId(7))));
        assert_eq!((returned.wake_at_ns, xid), (Some(2_000), 41));
        let [message] = &returned.host.messages[..] else { panic!("{:?}", returned.host) };
        assert_eq!(message[4..8], 41_u32.to_be_bytes());
        assert_eq!(returned.host.requests, [(Service::Topology, b"\x01drain".to_vec())]);
        // The next call goes on with the transaction ids, and without a timer.
        let returned = lend(returned.host, &mut xid, 3_000, |network| network.barrier(switch));
        assert_eq!((returned.wake_at_ns, xid), (None, 42));
    }
}
