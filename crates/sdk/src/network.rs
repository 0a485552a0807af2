//! What an application asks of the network.

use std::time::Duration;

use openflow::{Action, EncodeError, FlowMod, PacketOut};
use thiserror::Error;

use crate::abi::Level;
use crate::abi::guest::Host;
use crate::event::{PacketIn, Switch};

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
    /// It cannot be said in the switch's OpenFlow version, or is too long for a message.
    #[error(transparent)]
    Encode(#[from] EncodeError),
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
    /// application: 0 is that.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn flow_mod(&mut self, to: Switch, flow_mod: &FlowMod<'_>) -> Result<(), SendError> {
        let (lowest, highest) = self.host.band();
        let priority = lowest.checked_add(flow_mod.priority).filter(|it| *it <= highest);
        let most = highest.saturating_sub(lowest);
        let priority = priority.ok_or(SendError::Priority { is: flow_mod.priority, most })?;
        let flow_mod = FlowMod { priority, ..flow_mod.clone() };
        self.send(to, USUAL_MESSAGE, |room| flow_mod.encode(to.version, 0, room))
    }

    /// Sends a packet-out.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn packet_out(&mut self, to: Switch, packet_out: &PacketOut<'_>) -> Result<(), SendError> {
        let size = packet_out.data.len() + USUAL_MESSAGE;
        self.send(to, size, |room| packet_out.encode(to.version, 0, room))
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

    /// Encodes a message where it goes.
    fn send(
        &mut self,
        to: Switch,
        size: usize,
        encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<(), SendError> {
        let mut size = size.min(LONGEST_MESSAGE);
        loop {
            let room = self.host.reserve(size).ok_or(SendError::Full)?;
            match encode(room) {
                Ok(written) => {
                    let sent = self.host.commit(to.dpid.0, to.epoch, written);
                    return if sent { Ok(()) } else { Err(SendError::Full) };
                }
                Err(EncodeError::NoRoom { .. }) if size < LONGEST_MESSAGE => {
                    size = LONGEST_MESSAGE;
                }
                Err(error) => return Err(error.into()),
            }
        }
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
