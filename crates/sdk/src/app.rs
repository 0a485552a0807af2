//! What an application implements.

use crate::abi::guest::Records;
use crate::event::{Event, PacketIn};
use crate::network::Network;

/// Bytes that the answers to one event may need beyond twice the event's own size.
const ANSWER_ROOM: usize = 2048;

/// An application: events in, messages out, nothing else.
///
/// It owns no socket, no clock and no thread, so the same code runs in a test, in an App Zone or
/// in the kernel, where each worker has an instance of its own, for its switches. An instance lives
/// until its process ends; what it must know after a restart it is told by the snapshot with which every
/// start begins.
///
/// ```
/// use rosemary_sdk::{Action, App, Event, Network, PacketOut, PortNo, export_app};
///
/// struct Hub;
///
/// impl App for Hub {
///     fn create() -> Self {
///         Self
///     }
///
///     fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
///         if let Event::PacketIn(packet_in) = event {
///             let flood = [Action::output(PortNo::FLOOD)];
///             if let Err(error) = network.packet_out_for(&packet_in, &flood) {
///                 network.warn(&format!("could not flood: {error}"));
///             }
///         }
///     }
/// }
///
/// export_app!(Hub, name = "hub");
/// ```
pub trait App: Sized + 'static {
    /// Makes the instance. A panic here means that the application cannot start.
    fn create() -> Self;

    /// Takes the configuration that the operator wrote for this application: the text of its file, or
    /// nothing. Called once, before any event.
    ///
    /// # Errors
    /// What is wrong with it, as a phrase that begins with the line: `line 3: ...`. The operator is told,
    /// and the application is held until the file or the object has changed.
    fn configure(&mut self, text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Ok(());
        }
        Err("this app takes none; leave `config` out".to_owned())
    }

    /// Handles one event. Messages sent here go out together with its being done, or not at all.
    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>);

    /// It is time: the moment set with [`Network::wake_at`] has come.
    fn on_wake(&mut self, network: &mut Network<'_>) {
        let _ = network;
    }

    /// These events are about to be handled. An application that looks things up in large tables
    /// is faster if it touches here what it will look up for all of them, so that it waits for
    /// memory once and not for each.
    fn look_ahead(&mut self, batch: &Batch<'_>) {
        let _ = batch;
    }

    /// Handles events of the batch from number `first` on, as many as are all alike and there is room for, and
    /// returns how many; the next is for [`on_event`](Self::on_event). An application that answers most events in
    /// the same way is faster by it. It is called first with 0, also for a wake-up, then behind
    /// every event that `on_event` got, also the last.
    ///
    /// What it has sent to an event that it does not count is sent all the same: of one that needs several
    /// messages, room for all is looked for first ([`Network::room`]). To keep event `number` from the
    /// applications behind, [`Network::stop_event`].
    fn go_ahead(&mut self, batch: &Batch<'_>, first: usize, network: &mut Network<'_>) -> usize {
        let _ = (batch, first, network);
        0
    }

    /// Handles a batch of events, oldest first; an empty one is a wake-up. Returns how many were
    /// handled; the others come again when there is more room for messages.
    ///
    /// This calls [`look_ahead`](Self::look_ahead), then [`go_ahead`](Self::go_ahead), and
    /// [`on_event`](Self::on_event) where that does not suffice, as long as there is room for an answer.
    /// An application that does something with them together implements this instead.
    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        if batch.is_empty() {
            self.on_wake(network);
        }
        self.look_ahead(batch);
        let mut number = self.go_ahead(batch, 0, network).min(batch.len());
        while number < batch.len() {
            if !network.has_room(2 * batch.size_of(number) + ANSWER_ROOM) {
                return number;
            }
            network.now_handling(number);
            if let Some(event) = batch.get(number) {
                self.on_event(event, network);
            }
            number += 1;
            number += self.go_ahead(batch, number, network).min(batch.len() - number);
        }
        batch.len()
    }
}

/// Events to be handled together, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    records: Records<'a>,
}

impl<'a> Batch<'a> {
    /// Of the records that a host gave.
    pub(crate) fn new(records: Records<'a>) -> Self {
        Self { records }
    }

    /// How many events there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it is a wake-up.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }

    /// Event `number`; `None` if it is of a kind that this SDK does not know, or there is none.
    #[inline]
    pub fn get(&self, number: usize) -> Option<Event<'a>> {
        let (record, body) = self.records.get(number)?;
        Event::of(record, body)
    }

    /// Event `number`, if it is a packet-in.
    #[inline]
    pub fn packet_in(&self, number: usize) -> Option<PacketIn<'a>> {
        let (record, body) = self.records.get(number)?;
        PacketIn::of(record, body)
    }

    /// Events from number `first` on, as far as they are packet-ins.
    #[inline]
    pub fn packet_ins_from(&self, first: usize) -> impl Iterator<Item = PacketIn<'a>> {
        self.records.from(first).map_while(|(record, body)| PacketIn::of(record, body))
    }

    /// The packet-ins among the events.
    #[inline]
    pub fn packet_ins(&self) -> impl Iterator<Item = PacketIn<'a>> {
        (0..self.len()).filter_map(|number| self.packet_in(number))
    }

    /// All events; `None` for those of a kind that this SDK does not know.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Option<Event<'a>>> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Bytes of an event's record.
    #[inline]
    fn size_of(&self, number: usize) -> usize {
        self.records.get(number).map_or(0, |(record, _)| record.size as usize)
    }
}
