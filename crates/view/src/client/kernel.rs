//! Sends queries to the kernel.

use std::time::{Duration, Instant};

use control::query::{
    AppCounters, FLOWS_TIMEOUT, FlowStatus, KernelQuery, KernelQueryReply, Orphans, SwitchStatus,
};
use openflow::Dpid;
use sys::channel::Channel;

use super::{ClientError, REPLY_TIMEOUT, exchange};

/// A connection to the kernel of a running Rosemary.
#[derive(Debug)]
pub struct Kernel(pub(super) Channel);

impl Kernel {
    pub(super) const NAME: &str = "the kernel";

    /// Speaks over a connection that the monitor made.
    pub(super) fn over(channel: Channel) -> Self {
        Self(channel)
    }

    /// Requests the counters of the apps' packet-ins and messages.
    ///
    /// # Errors
    /// The kernel does not reply.
    pub fn apps(&self) -> Result<Vec<AppCounters>, ClientError> {
        match exchange(&self.0, &KernelQuery::Apps, Self::NAME, REPLY_TIMEOUT)? {
            (KernelQueryReply::Apps(apps), _) => Ok(apps),
            _ => Err(ClientError::Unexpected { peer: Self::NAME }),
        }
    }

    /// Requests the connected switches, in the order of their datapath ids.
    ///
    /// # Errors
    /// The kernel does not reply.
    pub fn switches(&self) -> Result<Vec<SwitchStatus>, ClientError> {
        let unexpected = || ClientError::Unexpected { peer: Self::NAME };
        let mut all: Vec<SwitchStatus> = Vec::new();
        loop {
            let after = match all.last() {
                Some(last) => Some(last.dpid.parse::<Dpid>().map_err(|_| unexpected())?.0),
                None => None,
            };
            let query = KernelQuery::Switches { after };
            let (reply, _) = exchange(&self.0, &query, Self::NAME, REPLY_TIMEOUT)?;
            let KernelQueryReply::Switches { switches, more } = reply else {
                return Err(unexpected());
            };
            if more && switches.is_empty() {
                return Err(unexpected()); // otherwise this loop would never end
            }
            all.extend(switches);
            if !more {
                return Ok(all);
            }
        }
    }

    /// Reads what apps that do not run any more own in the switches, or in one, and removes it if `remove`. Waits until
    /// the switches have answered, at most [`FLOWS_TIMEOUT`]. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// The kernel does not reply.
    pub fn orphans(&self, dpid: Option<u64>, remove: bool) -> Result<Option<Orphans>, ClientError> {
        const PAUSE: Duration = Duration::from_millis(50);
        let unexpected = || ClientError::Unexpected { peer: Self::NAME };
        let read = KernelQuery::ReadOrphans { dpid, remove };
        match exchange(&self.0, &read, Self::NAME, REPLY_TIMEOUT)?.0 {
            KernelQueryReply::ReadingOrphans => {}
            KernelQueryReply::NoSwitch => return Ok(None),
            _ => return Err(unexpected()),
        }
        let deadline = Instant::now() + FLOWS_TIMEOUT;
        loop {
            let mut all = Orphans::default();
            loop {
                let query = KernelQuery::Orphans { dpid, skip: all.found.len() };
                let (reply, _) = exchange(&self.0, &query, Self::NAME, REPLY_TIMEOUT)?;
                let KernelQueryReply::Orphans { orphans, more } = reply else {
                    return Err(unexpected());
                };
                if more && orphans.found.is_empty() {
                    return Err(unexpected()); // otherwise this loop would never end
                }
                (all.awaited, all.failed) = (orphans.awaited, orphans.failed);
                all.found.extend(orphans.found);
                if !more {
                    break;
                }
            }
            if all.awaited == 0 || Instant::now() >= deadline {
                return Ok(Some(all));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Requests the flows of a switch, in the switch's order. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// [`ClientError::Failed`] if the switch does not report them; the kernel does not reply.
    pub fn flows(&self, dpid: u64) -> Result<Option<Vec<FlowStatus>>, ClientError> {
        let mut all = Vec::new();
        let mut query = KernelQuery::Flows { dpid };
        loop {
            let (reply, _) = exchange(&self.0, &query, Self::NAME, FLOWS_TIMEOUT)?;
            match reply {
                KernelQueryReply::NoSwitch => return Ok(None),
                KernelQueryReply::Failed { why } => return Err(ClientError::Failed(why)),
                KernelQueryReply::Flows { flows, more } => {
                    if more && flows.is_empty() {
                        return Err(ClientError::Unexpected { peer: Self::NAME });
                    }
                    all.extend(flows);
                    if !more {
                        return Ok(Some(all));
                    }
                }
                _ => return Err(ClientError::Unexpected { peer: Self::NAME }),
            }
            query = KernelQuery::MoreFlows;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn switch(number: u64) -> SwitchStatus {
        SwitchStatus {
            dpid: format!("00:00:00:00:00:00:00:{number:02x}"),
            name: None,
            version: "1.3".into(),
            address: "127.0.0.1:43210".into(),
            transport: "tcp".into(),
            epoch: 1,
            ports: 2,
            n_tables: 1,
            table_size: None,
            flows: None,
            foreign_flows: 0,
            fullest: None,
            failing: Vec::new(),
            no_packets: None,
            flow_monitor: control::query::FlowMonitorState::Off,
            flow_monitor_off: None,
            requests: std::collections::BTreeMap::new(),
            role: None,
            packet_ins: 0,
            dropped: 0,
            pauses: 0,
            guarded: 0,
            flow_mods: 0,
            packet_outs: 0,
            refused: 0,
            unsent: 0,
            errors: 0,
        }
    }

    /// Answers queries with pages of two switches, from 1 to `last`.
    fn kernel_with(last: u64) -> Kernel {
        let (ours, theirs) = Channel::passing_pair().unwrap();
        std::thread::spawn(move || {
            loop {
                poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
                let Ok((KernelQuery::Switches { after }, _)) = theirs.receive() else { return };
                let first = after.map_or(1, |after| after + 1);
                let switches = (first..=last).take(2).map(switch).collect();
                let reply = KernelQueryReply::Switches { switches, more: first + 1 < last };
                theirs.send(&reply, &[]).unwrap();
            }
        });
        Kernel(ours)
    }

    #[test]
    fn switches_arrive_in_pages() {
        for last in [0, 1, 2, 3, 5] {
            let switches = kernel_with(last).switches().unwrap();
            let numbers: Vec<_> =
                switches.iter().map(|it| it.dpid.parse::<Dpid>().unwrap().0).collect();
            assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
        }
    }

    #[test]
    fn flows_arrive_in_pages_and_failure_is_reported() {
        let flow = |number: u16| FlowStatus {
            table: 0,
            priority: number,
            owner: "kernel".into(),
            cookie: "0x0".into(),
            match_: String::new(),
            actions: String::new(),
            packets: None,
            bytes: None,
            duration_ms: 0,
            idle_timeout: 0,
            hard_timeout: 0,
        };
        let (ours, theirs) = Channel::passing_pair().unwrap();
        std::thread::spawn(move || {
            let page = |flows: std::ops::Range<u16>, more| KernelQueryReply::Flows {
                flows: flows.map(flow).collect(),
                more,
            };
            let why = "the switch does not answer".to_owned();
            let replies = [
                page(0..2, true),
                page(2..3, false),
                KernelQueryReply::NoSwitch,
                KernelQueryReply::Failed { why },
            ];
            for (number, reply) in replies.into_iter().enumerate() {
                poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
                let expected = if number == 1 {
                    KernelQuery::MoreFlows
                } else {
                    KernelQuery::Flows { dpid: 7 }
                };
                assert_eq!(theirs.receive::<KernelQuery>().unwrap().0, expected);
                theirs.send(&reply, &[]).unwrap();
            }
        });
        let kernel = Kernel(ours);
        let flows = kernel.flows(7).unwrap().unwrap();
        assert!(flows.iter().map(|flow| flow.priority).eq(0..3));
        assert!(kernel.flows(7).unwrap().is_none());
        assert_eq!(kernel.flows(7).unwrap_err().to_string(), "the switch does not answer");
    }
}
