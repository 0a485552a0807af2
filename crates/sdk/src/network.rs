//! What an application asks of the network.

use std::time::Duration;

use openflow::{
    Action, Blanks, EncodeError, Experimenter, FlowMod, GroupMod, Header, Kind, MeterMod,
    MultipartRequest, PacketOut, PortMod, PortNo, QueueConfig, TableMod,
};
use thiserror::Error;

use crate::abi::Level;
use crate::abi::guest::Host;
use crate::event::{PacketIn, Switch};
use crate::own::Own;
use crate::template::{FlowAndPacket, Template};

/// Room first asked for a message whose size is not known; most flow-mods need less.
const USUAL_MESSAGE: usize = 1024;

/// The longest OpenFlow message.
const LONGEST_MESSAGE: usize = u16::MAX as usize;

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    /// There is no room for it until the kernel has taken some of those sent before.
    #[error("no room for more messages in this batch")]
    Full,
    /// A flow's priority is above what the operator gave to this application.
    #[error("priority {is}: the operator gave this app 0 to {most}")]
    Priority {
        /// The flow's.
        is: u16,
        /// The highest there is.
        most: u16,
    },
    /// A group's number is above what this application has.
    #[error("group {is}: this app has 0 to {most}")]
    Group {
        /// The group's.
        is: u32,
        /// The highest there is.
        most: u32,
    },
    /// A meter's number is above what this application has.
    #[error("meter {is}: this app has 0 to {most}")]
    Meter {
        /// The meter's.
        is: u32,
        /// The highest there is.
        most: u32,
    },
    /// It cannot be said in the switch's OpenFlow version, or is too long for a message.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The transaction id of a message that this application sent. What comes back about it has the
/// same: [`Event::Reply`](crate::Event::Reply), [`Event::Error`](crate::Event::Error) and
/// [`Event::Refused`](crate::Event::Refused).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);

impl Xid {
    /// That of a message, or of its beginning; `None` if it is too short to have one.
    pub fn of(message: &[u8]) -> Option<Self> {
        let bytes = message.get(4..8)?.first_chunk()?;
        Some(Self(u32::from_be_bytes(*bytes)))
    }
}

/// What an application asks of the network while it handles a batch.
///
/// Messages go out in this order when the batch is done, each in the version of its switch.
#[derive(Debug)]
pub struct Network<'h> {
    host: &'h mut Host,
    now_ns: u64,
    wake_at_ns: u64,
    handling: usize,
}

impl<'h> Network<'h> {
    /// Of a host, for one batch.
    pub(crate) fn new(host: &'h mut Host, now_ns: u64) -> Self {
        Self { host, now_ns, wake_at_ns: u64::MAX, handling: 0 }
    }

    /// The time of this batch, since an arbitrary moment; it never goes back.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    /// Asks to be called at this time at the latest; the earliest of several counts. It holds
    /// until the next call of any kind, and is to be asked for again then.
    pub fn wake_at(&mut self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.wake_at_ns = self.wake_at_ns.min(time_ns);
    }

    /// Sends a flow-mod. Its priority counts from the lowest that the operator gave to this
    /// application: 0 is that; one that does not say its priority is in the middle where that of
    /// `FlowMod` is too high. The groups and the meter that it names count from 0, too.
    /// [`last_xid`](Self::last_xid) tells its transaction id.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn flow_mod(&mut self, to: Switch, flow_mod: &FlowMod<'_>) -> Result<(), SendError> {
        let own = self.host.own();
        let priority = own.priority(flow_mod.priority)?;
        let mut send = |flow_mod: &FlowMod<'_>| {
            self.send(to, USUAL_MESSAGE, |xid, room| {
                flow_mod.encode_with_priority(priority, to.version, xid, room)
            })
        };
        if Own::has_other_numbers(flow_mod) {
            own.flow_mod(flow_mod, send)?;
        } else {
            send(flow_mod)?;
        }
        Ok(())
    }

    /// A flow-mod of which many alike will be sent, each for a pair of hosts: see
    /// [`flow_mod_from`](Self::flow_mod_from). It says what `flow_mod` does, but for match, buffer and
    /// instructions. Its priority and group count as in [`flow_mod`](Self::flow_mod).
    ///
    /// # Errors
    /// [`SendError::Priority`], [`SendError::Group`].
    pub fn template(&self, flow_mod: &FlowMod<'_>) -> Result<Template, SendError> {
        Template::new(flow_mod, self.host.own())
    }

    /// Sends a flow-mod of this template, with its blanks filled in. It takes a fraction of the time of
    /// [`flow_mod`](Self::flow_mod). [`last_xid`](Self::last_xid) tells its transaction id.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    #[inline]
    pub fn flow_mod_from(
        &mut self,
        to: Switch,
        template: &Template,
        blanks: &Blanks,
    ) -> Result<(), SendError> {
        // One that uses no buffer is followed by its packet, as a rule: that would end the series.
        if blanks.buffer_id.is_some() && self.flow_mods_from(to, template, [*blanks]) == 1 {
            return Ok(());
        }
        let template = template.of(to.version)?;
        self.send(to, Template::ROOM, |xid, room| template.fill(blanks, xid, room))?;
        Ok(())
    }

    /// Sends flow-mods of this template, one for each of these blanks, whose transaction ids count up to
    /// [`last_xid`](Self::last_xid). It takes a fraction of the time of as many
    /// [`flow_mod_from`](Self::flow_mod_from).
    ///
    /// Returns how many were sent. The first that was not is taken from `blanks` all the same:
    /// [`flow_mod_from`](Self::flow_mod_from) sends it, or says why it cannot be sent. A template that does not add
    /// flows sends none here.
    #[inline]
    pub fn flow_mods_from(
        &mut self,
        to: Switch,
        template: &Template,
        blanks: impl IntoIterator<Item = Blanks>,
    ) -> usize {
        let alone = |flow| FlowAndPacket { flow, packet: &[] };
        self.flows_and_packets_from(to, template, blanks.into_iter().map(alone))
    }

    /// Sends flow-mods of this template, each followed by the packet that asked for it, if that is not empty, in a
    /// packet-out by the same port: answers to packet-ins that came whole. It takes a fraction of the time of as many
    /// [`flow_mod_from`](Self::flow_mod_from) and [`packet_out`](Self::packet_out). Each message has a transaction id;
    /// they count up to [`last_xid`](Self::last_xid). What the operator did not allow is refused message by message: a
    /// packet may go out whose flow does not.
    ///
    /// Returns how many of `flows` were sent, with their packets. The first that was not is taken from it all the same:
    /// the two methods named above send it, as one whose packet has more than 8164 bytes, or say why it cannot be sent. A
    /// template that does not add flows sends none here. Where flows with a packet and without take turns, nothing is
    /// gained.
    #[inline]
    pub fn flows_and_packets_from<'p>(
        &mut self,
        to: Switch,
        template: &Template,
        flows: impl IntoIterator<Item = FlowAndPacket<'p>>,
    ) -> usize {
        let id = template.id();
        let Ok(template) = template.of(to.version) else { return 0 };
        if !template.adds() {
            return 0;
        }
        self.host.send_series((id, to), template, flows)
    }

    /// Sends a packet-out. Groups that it names are counted as in a flow-mod.
    /// [`last_xid`](Self::last_xid) tells its transaction id.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn packet_out(&mut self, to: Switch, packet_out: &PacketOut<'_>) -> Result<(), SendError> {
        let size = packet_out.data.len() + USUAL_MESSAGE;
        let actions = self.host.own().actions(packet_out.actions)?;
        let mut packet_out = *packet_out;
        if let Some(actions) = &actions {
            packet_out.actions = actions.into();
        }
        self.send(to, size, |xid, room| packet_out.encode(to.version, xid, room))?;
        Ok(())
    }

    /// Adds, changes or deletes a group. Its number, and those of others that it names, count from
    /// this application's first.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn group_mod(&mut self, to: Switch, group_mod: &GroupMod) -> Result<Xid, SendError> {
        let group_mod = self.host.own().group_mod(group_mod)?;
        self.send(to, USUAL_MESSAGE, |xid, room| group_mod.encode(to.version, xid, room))
    }

    /// Adds, changes or deletes a meter. Its number counts from this application's first.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn meter_mod(&mut self, to: Switch, meter_mod: &MeterMod) -> Result<Xid, SendError> {
        let meter_id = self.host.own().meter(meter_mod.meter_id)?;
        let meter_mod = MeterMod { meter_id, ..meter_mod.clone() };
        self.send(to, USUAL_MESSAGE, |xid, room| meter_mod.encode(to.version, xid, room))
    }

    /// Changes a port.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn port_mod(&mut self, to: Switch, port_mod: &PortMod) -> Result<Xid, SendError> {
        self.send(to, USUAL_MESSAGE, |xid, room| port_mod.encode(to.version, xid, room))
    }

    /// Configures a flow table.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn table_mod(&mut self, to: Switch, table_mod: &TableMod) -> Result<Xid, SendError> {
        self.send(to, USUAL_MESSAGE, |xid, room| table_mod.encode(to.version, xid, room))
    }

    /// Asks for a reply as soon as the switch has done all that it was sent before.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn barrier(&mut self, to: Switch) -> Result<Xid, SendError> {
        self.send_empty(to, Kind::BarrierRequest)
    }

    /// Asks for statistics or a description; the answer may come in several parts. Groups and
    /// meters are counted as in a flow-mod. Of flows, groups and meters the application is told its
    /// own, and others' too if it was granted `flow.read`.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn request(
        &mut self,
        to: Switch,
        request: &MultipartRequest<'_>,
    ) -> Result<Xid, SendError> {
        let request = self.host.own().request(request)?;
        self.send(to, USUAL_MESSAGE, |xid, room| request.encode(to.version, xid, room))
    }

    /// Asks for the switch's configuration.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn get_config(&mut self, to: Switch) -> Result<Xid, SendError> {
        self.send_empty(to, Kind::GetConfigRequest)
    }

    /// Asks for the queues of a port.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn queue_config(&mut self, to: Switch, port: PortNo) -> Result<Xid, SendError> {
        self.send(to, USUAL_MESSAGE, |xid, room| {
            QueueConfig::encode_request(port, to.version, xid, room)
        })
    }

    /// Sends an experimenter's message.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn experimenter(
        &mut self,
        to: Switch,
        message: &Experimenter<'_>,
    ) -> Result<Xid, SendError> {
        let size = message.data.len() + USUAL_MESSAGE;
        self.send(to, size, |xid, room| message.encode(to.version, xid, room))
    }

    /// The transaction id of the last message sent, in this batch or before.
    pub fn last_xid(&self) -> Xid {
        Xid(self.host.last_xid())
    }

    /// What this application calls a priority of the switch; `None` if it is not its own. What a
    /// switch tells has the numbers that are on the switch.
    pub fn own_priority(&self, on_switch: u16) -> Option<u16> {
        let (lowest, highest) = self.host.own().priorities;
        on_switch.checked_sub(lowest).filter(|_| on_switch <= highest)
    }

    /// What this application calls a group of the switch; `None` if it is not its own.
    pub fn own_group(&self, on_switch: u32) -> Option<u32> {
        let (first, last) = self.host.own().groups;
        on_switch.checked_sub(first).filter(|_| on_switch <= last)
    }

    /// What this application calls a meter of the switch; `None` if it is not its own.
    pub fn own_meter(&self, on_switch: u32) -> Option<u32> {
        let (first, last) = self.host.own().meters;
        on_switch.checked_sub(first).filter(|_| on_switch <= last)
    }

    /// Applies `actions` to the packet of a packet-in: to the switch's copy if it kept one.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn packet_out_for(
        &mut self,
        packet_in: &PacketIn<'_>,
        actions: &[Action],
    ) -> Result<(), SendError> {
        let packet_out = match packet_in.buffer_id {
            Some(buffer_id) => PacketOut::buffered(packet_in.in_port, actions, buffer_id),
            None => PacketOut::new(packet_in.in_port, actions, packet_in.data),
        };
        self.packet_out(packet_in.switch, &packet_out)
    }

    /// Keeps the event being handled from the applications behind this one.
    pub fn stop(&mut self) {
        self.host.stop(self.handling);
    }

    /// Keeps event `number` of the batch from the applications behind this one; for those that
    /// implement [`App::on_batch`](crate::App::on_batch).
    pub fn stop_event(&mut self, number: usize) {
        self.host.stop(number);
    }

    /// Bytes of messages for which there is room now.
    pub fn room(&self) -> usize {
        self.host.room()
    }

    /// Tells the operator that someone must act.
    pub fn error(&self, text: &str) {
        self.host.log(Level::Error, text);
    }

    /// Tells the operator that something went wrong and the application coped.
    pub fn warn(&self, text: &str) {
        self.host.log(Level::Warn, text);
    }

    /// Tells the operator what changed.
    pub fn info(&self, text: &str) {
        self.host.log(Level::Info, text);
    }

    /// Tells a developer what happens.
    pub fn debug(&self, text: &str) {
        self.host.log(Level::Debug, text);
    }

    fn send_empty(&mut self, to: Switch, kind: Kind) -> Result<Xid, SendError> {
        self.send(to, Header::SIZE, |xid, room| kind.encode_empty(to.version, xid, room))
    }

    /// Encodes a message where it goes.
    #[inline]
    fn send(
        &mut self,
        to: Switch,
        size: usize,
        encode: impl Fn(u32, &mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<Xid, SendError> {
        let xid = self.host.last_xid().wrapping_add(1);
        let mut size = size.min(LONGEST_MESSAGE);
        loop {
            let room = self.host.reserve(size).ok_or(SendError::Full)?;
            match encode(xid, room) {
                Ok(written) => {
                    if !self.host.commit(to.dpid.0, to.epoch, written) {
                        return Err(SendError::Full);
                    }
                    self.host.sent(xid);
                    return Ok(Xid(xid));
                }
                Err(EncodeError::NoRoom { .. }) if size < LONGEST_MESSAGE => {
                    size = LONGEST_MESSAGE;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What takes this application's calls.
    pub(crate) fn host(&mut self) -> &mut Host {
        self.host
    }

    /// Whether there is room for so many bytes.
    #[inline]
    pub(crate) fn has_room(&mut self, size: usize) -> bool {
        self.host.has_room(size)
    }

    /// Which event of the batch is in hand.
    pub(crate) fn now_handling(&mut self, number: usize) {
        self.handling = number;
    }

    /// When to be called at the latest.
    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.wake_at_ns
    }
}
