//! The measured switch with its two channels, and the steps that several measurements share.

use std::time::{Duration, Instant};

use openflow::{
    Action, AggregateStats, Echo, FlowMod, FlowStatsRequest, Kind, Match, MultipartReply,
    MultipartRequest, PacketIn, PacketOut, PortNo, ReplyBody,
};

use super::Plan;
use super::channel::Received;
use super::clock::Stamp;
use super::data_path::{Arrival, DataPath, Way, wait};
use super::probe::{self, Probe};
use super::session::{BULK, COOKIE, REPLY, Session, invalid};
use super::trouble::Trouble;

/// Time limit for a frame to pass the switch, by way of this side or not.
pub(super) const PASS: Duration = Duration::from_secs(1);

/// How long a search for the switch's ports repeats its frames.
const SEARCH: Duration = Duration::from_secs(5);

/// Flow numbers below this one are for frames that are forwarded or dropped by an installed flow.
pub(super) const FIRST_FREE: u32 = 1 << 20;

/// A packet-in of a frame of the run.
#[derive(Debug)]
pub(super) struct ProbePacketIn {
    pub(super) probe: Probe,
    /// When it arrived.
    pub(super) at: Stamp,
    /// When this process had decoded it.
    pub(super) decoded: Stamp,
    pub(super) in_port: PortNo,
    pub(super) buffer_id: Option<u32>,
    /// The frame, or its beginning.
    pub(super) data: Vec<u8>,
    /// Size of the message in bytes.
    pub(super) size: usize,
}

/// The measured switch; see the module's documentation.
pub(super) struct Bench<'a> {
    pub(super) session: Session,
    data: Option<DataPath>,
    pub(super) plan: &'a Plan,
    pub(super) progress: &'a mut dyn FnMut(&str),
    sequence: u32,
    next_flow: u32,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        session: Session,
        data: Option<DataPath>,
        plan: &'a Plan,
        progress: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self { session, data, plan, progress, sequence: 0, next_flow: FIRST_FREE }
    }

    /// Whether frames can be sent through the switch.
    pub(super) fn has_data_path(&self) -> bool {
        self.data.is_some()
    }

    /// Returns the data path.
    pub(super) fn data(&mut self) -> Result<&mut DataPath, Trouble> {
        self.data.as_mut().ok_or_else(|| {
            Trouble::NotApplicable(
                "needs the data path: name its interfaces with --in, --out".into(),
            )
        })
    }

    /// Returns the switch's ports if there is a data path and they were found.
    pub(super) fn known_ports(&self) -> Option<[PortNo; 2]> {
        let ports = self.data.as_ref()?.ports();
        (!ports.contains(&PortNo::ANY)).then_some(ports)
    }

    /// Returns the switch's ports: where frames enter and leave.
    pub(super) fn ports(&mut self) -> Result<[PortNo; 2], Trouble> {
        Ok(self.data()?.ports())
    }

    /// Returns a frame of a flow that no frame had before.
    pub(super) fn probe(&mut self, flow: u32) -> Probe {
        self.sequence = self.sequence.wrapping_add(1);
        Probe { flow, sequence: self.sequence }
    }

    /// Returns the first of `count` flow numbers that were not used yet; after 15 million they repeat. The number is a
    /// multiple of 256.
    pub(super) fn new_flows(&mut self, count: u32) -> u32 {
        let count = count.next_multiple_of(256);
        if self.next_flow.saturating_add(count) > probe::FLOWS {
            self.next_flow = FIRST_FREE;
        }
        let first = self.next_flow;
        self.next_flow += count;
        first
    }

    /// Returns the match of exactly one flow on its way forth. Without a data path the port and the stations are fixed.
    pub(super) fn exact(&self, flow: u32) -> Match {
        match &self.data {
            Some(data) => data.frames(Way::Forth).exact(data.ports()[0], flow),
            None => probe::Frames::new(
                0,
                openflow::MacAddr([2, 0, 0, 0, 0, 1]),
                openflow::MacAddr([2, 0, 0, 0, 0, 2]),
                probe::MIN_FRAME,
            )
            .exact(PortNo(1), flow),
        }
    }

    /// Returns the port that flows of a measurement without frames send to.
    pub(super) fn out_port(&self) -> PortNo {
        self.data.as_ref().map_or(PortNo(1), |data| data.ports()[1])
    }

    /// Finds the switch's ports behind the interfaces: frames without a flow come back as packet-ins.
    pub(super) fn find_ports(&mut self) -> Result<(), Trouble> {
        if self.data.is_none() {
            return Ok(());
        }
        (self.progress)("looking for the switch's ports");
        self.session.reset_flows(false)?;
        let mut ports = [PortNo::ANY; 2];
        for (way, port) in [Way::Forth, Way::Back].into_iter().zip(&mut ports) {
            let until = Instant::now() + SEARCH;
            *port = loop {
                let probe = self.probe(0);
                self.data()?.send(way, probe)?;
                let soon = until.min(Instant::now() + Duration::from_millis(300));
                if let Some(asked) = self.packet_in(probe, soon)? {
                    break asked.in_port;
                }
                if Instant::now() >= until {
                    let name = if way == Way::Forth { "--in" } else { "--out" };
                    return Err(Trouble::Lost(format!(
                        "frames sent to the interface of {name} do not reach the switch: no packet-in within {SEARCH:?}"
                    )));
                }
            };
        }
        if ports[0] == ports[1] {
            return Err(Trouble::Lost(format!(
                "both interfaces lead to port {} of the switch",
                ports[0]
            )));
        }
        self.data()?.set_ports(ports);
        Ok(())
    }

    /// Waits for the packet-in of a frame, and discards others.
    pub(super) fn packet_in(
        &mut self,
        probe: Probe,
        until: Instant,
    ) -> Result<Option<ProbePacketIn>, Trouble> {
        while let Some(message) = self.session.next(until)? {
            if let Some(asked) = self.asked(&message)
                && asked.probe == probe
            {
                return Ok(Some(asked));
            }
        }
        Ok(None)
    }

    /// Returns the packet-in of a frame of the run that a message is.
    pub(super) fn asked(&mut self, message: &Received) -> Option<ProbePacketIn> {
        if message.bytes.get(1) != Some(&10) {
            return None;
        }
        let packet_in = PacketIn::decode(&message.bytes).ok()?;
        let data = self.data.as_ref()?;
        let probe = [Way::Forth, Way::Back]
            .into_iter()
            .find_map(|way| data.frames(way).recognise(packet_in.data))?;
        Some(ProbePacketIn {
            probe,
            at: message.at,
            decoded: Stamp::now(),
            in_port: packet_in.in_port,
            buffer_id: packet_in.buffer_id,
            data: packet_in.data.to_vec(),
            size: message.bytes.len(),
        })
    }

    /// Queues the packet-out that sends the frame of a packet-in on its way.
    pub(super) fn queue_packet_out(&mut self, asked: &ProbePacketIn) -> Result<(), Trouble> {
        let actions = [Action::output(self.ports()?[1])];
        let packet_out = match asked.buffer_id {
            Some(buffer_id) => PacketOut::buffered(asked.in_port, &actions, buffer_id),
            None => PacketOut::new(asked.in_port, &actions, &asked.data),
        };
        self.session.queue(|version, xid, room| packet_out.encode(version, xid, room))?;
        Ok(())
    }

    /// Sends a frame forth and waits until it leaves the switch.
    pub(super) fn pass(&mut self, flow: u32) -> Result<Option<Arrival>, Trouble> {
        // Echo requests are answered, and the end of the connection is noticed.
        while self.session.next(Instant::now())?.is_some() {}
        let probe = self.probe(flow);
        let data = self.data()?;
        data.send(Way::Forth, probe)?;
        Ok(data.wait_for(Way::Forth, probe, Instant::now() + PASS)?)
    }

    /// Measures the time until the switch answers an echo request of this size, in microseconds.
    pub(super) fn echo(&mut self, size: usize) -> Result<f64, Trouble> {
        let (sent, answered) = self.echo_stamps(size)?;
        Ok(answered.us_since(sent))
    }

    /// Sends an echo request of this size; returns when it left, after it was answered.
    pub(super) fn echo_sent(&mut self, size: usize) -> Result<Stamp, Trouble> {
        Ok(self.echo_stamps(size)?.0)
    }

    fn echo_stamps(&mut self, size: usize) -> Result<(Stamp, Stamp), Trouble> {
        let data = vec![0x5a; size.saturating_sub(8)];
        let xid = self.session.queue(|version, xid, room| {
            Echo { is_reply: false, xid, data: &data }.encode(version, room)
        })?;
        let sent = self.session.flush_stamped()?;
        let reply = self.session.reply(xid, Kind::EchoReply, REPLY)?;
        if reply.bytes.get(8..) != Some(&data[..]) {
            return Err(Trouble::Invalid("an echo reply with other data than its request".into()));
        }
        Ok((sent, reply.at))
    }

    /// Queues a flow that sends the frames of `flow` on their way.
    pub(super) fn queue_forwarding(&mut self, flow: u32, priority: u16) -> Result<(), Trouble> {
        let actions = [Action::output(self.out_port())];
        let add = FlowMod::add(self.exact(flow)).priority(priority).apply(&actions);
        self.session.flow_mod(add).map(drop)
    }

    /// Waits until a message or a frame arrives; returns `false` at the time limit.
    pub(super) fn wait(&self, until: Instant) -> Result<bool, Trouble> {
        self.session.check_stop()?;
        let mut fds = vec![self.session.channel().fd()];
        fds.extend(self.data.iter().flat_map(DataPath::captures));
        Ok(wait(&fds, until)?)
    }

    /// Returns the switch's own count of this program's flows that a match covers.
    pub(super) fn aggregate(&mut self, match_: Match) -> Result<AggregateStats, Trouble> {
        let request = MultipartRequest::Aggregate(self.own_flows(match_));
        let (_, parts) = self.session.multipart(&request, BULK)?;
        match MultipartReply::decode(&parts[0].bytes).map_err(invalid)?.body {
            ReplyBody::Aggregate(stats) => Ok(stats),
            _ => Err(Trouble::Invalid("the reply to an aggregate request is another".into())),
        }
    }

    /// Selects this program's flows. OpenFlow 1.0 cannot select by cookie.
    pub(super) fn own_flows(&self, match_: Match) -> FlowStatsRequest {
        let request = FlowStatsRequest::new(match_);
        if self.session.version().features().cookie_masks {
            FlowStatsRequest { cookie: COOKIE, cookie_mask: u64::MAX, ..request }
        } else {
            request
        }
    }

    /// Fails if the switch reports another number of flows than were installed.
    pub(super) fn check_flow_count(&mut self, match_: Match, flows: usize) -> Result<(), Trouble> {
        let reported = self.aggregate(match_)?.flow_count;
        if usize::try_from(reported) == Ok(flows) {
            return Ok(());
        }
        Err(Trouble::Contradiction(format!(
            "it reports {reported} flows after it accepted {flows}"
        )))
    }
}
