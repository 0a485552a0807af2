//! Sends an application's messages to switches: [`Network`], which an application gets with each batch of events.
//!
//! Each message is encoded in the version of its switch, straight into the room that the host reserves for it, as a ring
//! in an App Zone.

use std::time::Duration;

use openflow::{
    Action, Blanks, EncodeError, Experimenter, FlowMod, GroupMod, Header, Kind, MeterMod,
    MultipartRequest, PacketOut, PortMod, PortNo, QueueConfig, TableMod,
};
use series::FlowAndPacket;
use thiserror::Error;

use crate::abi::Level;
use crate::abi::guest::Host;
use crate::changes::{Change, CommitId, MAX_CHANGE_SET, MAX_CHANGES, SetWriter};
use crate::event::{PacketIn, Switch};
use crate::own::Own;
use crate::services::table::TableView;
use crate::services::{self, AskError, RequestId, Service};
use crate::template::Template;
use crate::timers::TimerError;

/// Bytes first reserved for a message of unknown size; most flow-mods need less.
const USUAL_MESSAGE: usize = 1024;

/// The longest OpenFlow message.
const LONGEST_MESSAGE: usize = u16::MAX as usize;

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    /// There is no room until the kernel has taken some of the earlier messages.
    #[error("no room for more messages in this batch")]
    Full,
    /// A flow's priority is above the band that the operator gave to this application.
    #[error("priority {is}: the operator gave this app 0 to {most}")]
    Priority {
        /// The priority of the flow.
        is: u16,
        /// The highest priority of this application.
        most: u16,
    },
    /// A group's number is above the range of this application.
    #[error("group {is}: this app has 0 to {most}")]
    Group {
        /// The number of the group.
        is: u32,
        /// The highest number of this application.
        most: u32,
    },
    /// A meter's number is above the range of this application.
    #[error("meter {is}: this app has 0 to {most}")]
    Meter {
        /// The number of the meter.
        is: u32,
        /// The highest number of this application.
        most: u32,
    },
    /// A change set is empty, or longer than the kernel accepts.
    #[error(
        "a change set of {changes} changes and {bytes} bytes; it has 1 to {MAX_CHANGES} changes and at most {MAX_CHANGE_SET} bytes"
    )]
    ChangeSet {
        /// Number of changes up to the first that does not fit.
        changes: usize,
        /// Bytes of these changes.
        bytes: usize,
    },
    /// The switch sent only a part of the packet, and keeps no copy of it.
    #[error("the switch sent only {have} of {total} bytes of the packet, which cannot be sent on")]
    Truncated {
        /// Bytes of the packet that the switch sent.
        have: usize,
        /// Size of the packet, in bytes.
        total: u16,
    },
    /// The switch's OpenFlow version cannot express it, or it is too long for a message.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The transaction id of a message that this application sent. Events about the message carry the same id:
/// [`Event::Reply`](crate::Event::Reply), [`Event::Error`](crate::Event::Error) and
/// [`Event::Refused`](crate::Event::Refused).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);

impl Xid {
    /// Returns the transaction id of a message or of its beginning, or `None` if it is too short.
    pub fn of(message: &[u8]) -> Option<Self> {
        let bytes = message.get(4..8)?.first_chunk()?;
        Some(Self(u32::from_be_bytes(*bytes)))
    }
}

/// Sends messages while the application handles a batch.
///
/// Messages go out in the order of these calls when the batch is done, each in the version of its switch.
#[derive(Debug)]
pub struct Network<'h> {
    host: &'h mut Host,
    now_ns: u64,
    wake_at_ns: u64,
    handling: usize,
}

impl<'h> Network<'h> {
    /// Sends through `host`, for one batch.
    pub(crate) fn new(host: &'h mut Host, now_ns: u64) -> Self {
        Self { host, now_ns, wake_at_ns: u64::MAX, handling: 0 }
    }

    /// Returns the time of this batch since an arbitrary moment; it never goes back.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    /// Sets a timer: the application is called at this time at the latest. The earliest of several counts.
    ///
    /// The next call of the application, for whatever reason, clears the timer. Only a call for [timers with
    /// names](Self::set_timer) alone leaves it. A timer with a name lasts until it expires.
    pub fn wake_at(&mut self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.wake_at_ns = self.wake_at_ns.min(time_ns);
    }

    /// Sets the timer `name` to expire once at this time of [`now`](Self::now): the application's
    /// [`on_timer`](crate::App::on_timer) is then called. Replaces a timer of this name. Other events do not change it.
    ///
    /// # Errors
    /// [`TimerError::TooMany`]; nothing has changed.
    pub fn set_timer(&mut self, name: &str, at: Duration) -> Result<(), TimerError> {
        self.host.timers.set(name, at)
    }

    /// Sets the timer `name` to expire after each period `every`. As [`set_timer`](Self::set_timer).
    ///
    /// # Errors
    /// [`TimerError`]; nothing has changed.
    pub fn repeat_timer(&mut self, name: &str, every: Duration) -> Result<(), TimerError> {
        self.host.timers.repeat(name, every, self.now())
    }

    /// Cancels the timer `name`. Returns whether it was set.
    pub fn cancel_timer(&mut self, name: &str) -> bool {
        self.host.timers.cancel(name)
    }

    /// Sends a flow-mod; [`last_xid`](Self::last_xid) is its transaction id.
    ///
    /// Its priority counts from the lowest of this application's band, which is 0 here. A flow-mod that states no
    /// priority gets the middle of the band if `FlowMod`'s default is above it. Groups and meters count from 0, too.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn flow_mod(&mut self, to: Switch, flow_mod: &FlowMod<'_>) -> Result<(), SendError> {
        if Own::has_other_numbers(flow_mod) {
            let own = self.host.own();
            return own.flow_mod(flow_mod, |flow_mod| self.flow_mod_as_it_is(to, flow_mod));
        }
        self.flow_mod_as_it_is(to, flow_mod)
    }

    /// Sends a flow-mod in which only the priority counts from this application's lowest.
    #[inline]
    fn flow_mod_as_it_is(&mut self, to: Switch, flow_mod: &FlowMod<'_>) -> Result<(), SendError> {
        let priority = self.host.own().priority(flow_mod.priority)?;
        self.send(to, USUAL_MESSAGE, |xid, room| {
            flow_mod.encode_with_priority(priority, to.version, xid, room)
        })?;
        Ok(())
    }

    /// Makes a template of `flow_mod`, from which [`flow_mod_from`](Self::flow_mod_from) sends flow-mods for pairs of
    /// hosts.
    ///
    /// The template ignores the match, buffer and instructions of `flow_mod`. Its priority and group count as in
    /// [`flow_mod`](Self::flow_mod).
    ///
    /// # Errors
    /// [`SendError::Priority`], [`SendError::Group`].
    pub fn template(&self, flow_mod: &FlowMod<'_>) -> Result<Template, SendError> {
        Template::new(flow_mod, self.host.own())
    }

    /// Sends a flow-mod of this template with its blanks filled in; [`last_xid`](Self::last_xid) is its transaction id.
    /// It takes less time than [`flow_mod`](Self::flow_mod).
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
        // A flow-mod without a buffer is usually followed by a packet-out, which would end the series.
        if blanks.buffer_id.is_some() && self.flow_mods_from(to, template, [*blanks]) == 1 {
            return Ok(());
        }
        let template = template.of(to.version)?;
        self.send(to, template.message().len(), |xid, room| template.fill(blanks, xid, room))?;
        Ok(())
    }

    /// Sends a flow-mod of this template for each of these blanks; their transaction ids count up to
    /// [`last_xid`](Self::last_xid). It takes less time than that many calls of
    /// [`flow_mod_from`](Self::flow_mod_from).
    ///
    /// Returns how many were sent. The first that was not sent is also taken from `blanks`:
    /// [`flow_mod_from`](Self::flow_mod_from) sends it or returns why it cannot. A template that does not add flows
    /// sends none here.
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

    /// Sends flow-mods of this template, and then their packets that are not empty, each in a packet-out through the port of
    /// its flow. These are answers to packet-ins that hold the whole packet.
    ///
    /// It takes less time than as many calls of [`flow_mod_from`](Self::flow_mod_from) and
    /// [`packet_out`](Self::packet_out), unless flows with a packet and flows without alternate. Each message has a
    /// transaction id; they count up to [`last_xid`](Self::last_xid). The kernel refuses each message for itself: a
    /// packet may go out though its flow does not.
    ///
    /// Returns how many of `flows` were sent, with their packets. The first that was not sent is also taken from `flows`:
    /// the two methods named above send it, as one whose packet has more than 8164 bytes, or return why they cannot. A
    /// template that does not add flows sends none here.
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

    /// Sends a packet-out; [`last_xid`](Self::last_xid) is its transaction id. Groups count as in a flow-mod.
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

    /// Adds, changes or deletes a group. Its number and the numbers of other groups in it count from this application's
    /// first.
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

    /// Sends changes of flows, groups and meters. A switch with bundles applies them wholly or not at all;
    /// [`Event::Committed`](crate::Event::Committed) has the outcome. Priorities, groups and meters count as in
    /// [`flow_mod`](Self::flow_mod).
    ///
    /// The switch applies them in this order, so a group comes before the flows that use it. A switch without bundles
    /// applies additions first, unless an earlier deletion or modification could touch them: give the flows of each state
    /// a cookie of their own, and delete the former state by its cookie. The kernel sends nothing if it refuses one of the
    /// changes. Messages that are sent before the outcome is known may overtake the changes.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent. [`SendError::Full`] stays if the operator has made the rings too small for the set.
    pub fn commit(&mut self, to: Switch, changes: &[Change<'_>]) -> Result<CommitId, SendError> {
        let mut set = self.begin_set();
        let own = self.host.own();
        for change in changes {
            set.add(change, &own, to.version)?;
        }
        self.commit_set(to, set)
    }

    /// Begins a change set, which is sent before any other message: it has the next transaction id as its number.
    pub(crate) fn begin_set(&self) -> SetWriter {
        SetWriter::new(CommitId(self.host.last_xid().wrapping_add(1)))
    }

    /// Sends a change set.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub(crate) fn commit_set(&mut self, to: Switch, set: SetWriter) -> Result<CommitId, SendError> {
        let commit = set.commit();
        let bytes = set.finish()?;
        let room = self.host.reserve(bytes.len()).ok_or(SendError::Full)?;
        room.copy_from_slice(&bytes);
        if !self.host.commit_changes(to, bytes.len()) {
            return Err(SendError::Full);
        }
        self.host.sent(commit.0);
        Ok(commit)
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

    /// Requests a reply that the switch sends when it has processed all earlier messages.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn barrier(&mut self, to: Switch) -> Result<Xid, SendError> {
        self.send_empty(to, Kind::BarrierRequest)
    }

    /// Requests statistics or a description; the reply may come in several parts. Groups and meters count as in a
    /// flow-mod. The reply lists the flows, groups and meters of this application, and those of others if it was granted
    /// `flow.read`.
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

    /// Requests the switch's configuration.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn get_config(&mut self, to: Switch) -> Result<Xid, SendError> {
        self.send_empty(to, Kind::GetConfigRequest)
    }

    /// Requests the queues of a port.
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

    /// Returns the transaction id of the last message sent, in this batch or before.
    pub fn last_xid(&self) -> Xid {
        Xid(self.host.last_xid())
    }

    /// Returns the ranges of this application's numbers on switches.
    pub fn own_numbers(&self) -> Own {
        self.host.own()
    }

    /// Converts a priority in a switch's message to this application's numbering; `None` if it is outside of its
    /// band.
    pub fn own_priority(&self, on_switch: u16) -> Option<u16> {
        let (lowest, highest) = self.host.own().priorities;
        on_switch.checked_sub(lowest).filter(|_| on_switch <= highest)
    }

    /// Converts a group's number in a switch's message to this application's numbering; `None` if it is another's.
    pub fn own_group(&self, on_switch: u32) -> Option<u32> {
        let (first, last) = self.host.own().groups;
        on_switch.checked_sub(first).filter(|_| on_switch <= last)
    }

    /// Converts a meter's number in a switch's message to this application's numbering; `None` if it is another's.
    pub fn own_meter(&self, on_switch: u32) -> Option<u32> {
        let (first, last) = self.host.own().meters;
        on_switch.checked_sub(first).filter(|_| on_switch <= last)
    }

    /// Applies `actions` to the packet of a packet-in: to the switch's copy if the switch kept one.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent. [`SendError::Truncated`] if neither the switch nor the app has the whole packet.
    pub fn packet_out_for(
        &mut self,
        packet_in: &PacketIn<'_>,
        actions: &[Action],
    ) -> Result<(), SendError> {
        let in_port = packet_in.in_port.to_answer();
        let packet_out = match packet_in.buffer_id {
            Some(buffer_id) => PacketOut::buffered(in_port, actions, buffer_id),
            None if packet_in.is_whole() => PacketOut::new(in_port, actions, packet_in.data),
            None => {
                let (have, total) = (packet_in.data.len(), packet_in.total_len);
                return Err(SendError::Truncated { have, total });
            }
        };
        self.packet_out(packet_in.switch, &packet_out)
    }

    /// Stops the current event: the applications behind this one do not get it.
    pub fn stop(&mut self) {
        self.host.stop(self.handling);
    }

    /// Stops event `number` of the batch: the applications behind this one do not get it. For applications that
    /// implement [`App::on_batch`](crate::App::on_batch).
    pub fn stop_event(&mut self, number: usize) {
        self.host.stop(number);
    }

    /// Returns how many bytes of messages there is room for now.
    pub fn room(&self) -> usize {
        self.host.room()
    }

    /// Logs that someone must act.
    pub fn error(&self, text: &str) {
        self.host.log(Level::Error, text);
    }

    /// Logs that something went wrong and the application coped.
    pub fn warn(&self, text: &str) {
        self.host.log(Level::Warn, text);
    }

    /// Logs a change.
    pub fn info(&self, text: &str) {
        self.host.log(Level::Info, text);
    }

    /// Logs what helps a developer.
    pub fn debug(&self, text: &str) {
        self.host.log(Level::Debug, text);
    }

    fn send_empty(&mut self, to: Switch, kind: Kind) -> Result<Xid, SendError> {
        self.send(to, Header::SIZE, |xid, room| kind.encode_empty(to.version, xid, room))
    }

    /// Encodes a message into the room that the host reserves for it.
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

    /// Returns the table of a service; `None` while the service is not available, or if the operator has not named it for
    /// this application.
    pub fn table(&self, service: Service) -> Option<TableView<'_>> {
        self.host.read_table(service, 0, &mut [])?;
        Some(TableView { host: self.host, service })
    }

    /// Sends a request to a service that an application provides. [`Event::Served`](crate::Event::Served) is the answer.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn ask_service(&mut self, service: Service, body: &[u8]) -> Result<RequestId, AskError> {
        self.host.ask(service, &[&[services::REQUEST_OF_APP][..], body].concat())
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        self.host
    }

    /// Returns whether there is room for `size` bytes of messages.
    #[inline]
    pub(crate) fn has_room(&mut self, size: usize) -> bool {
        self.host.has_room(size)
    }

    /// States which event of the batch the application handles now.
    pub(crate) fn now_handling(&mut self, number: usize) {
        self.handling = number;
    }

    /// Returns when the timer expires; `u64::MAX` if none is set.
    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.wake_at_ns
    }
}
