//! Defines [`App`], the trait that an application implements, and the [`Batch`] of events that it gets.

use crate::abi::RecordKind;
use crate::abi::records::Records;
use crate::event::{Event, PacketIn};
use crate::http::{HttpRequest, Response};
use crate::network::Network;

/// Bytes that answers to one event may need in addition to twice the event's own size.
pub(crate) const ANSWER_ROOM: usize = 2048;

/// An application: events in, messages out, nothing else.
///
/// It owns no socket, no clock and no thread, so the same code runs in a test, in an App Zone or
/// in the kernel, where each worker has an instance of its own, for its switches. An instance lives
/// until its process ends. Every start begins with a snapshot: events that describe the present state of the network.
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

    /// Takes the text of the application's configuration file, or an empty text if there is no file. Called once, before
    /// any event.
    ///
    /// # Errors
    /// A phrase that begins with the line: `line 3: ...`. The monitor logs it, and starts the application again when the
    /// file or the object has changed.
    fn configure(&mut self, text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Ok(());
        }
        Err("this app takes none; leave `config` out".to_owned())
    }

    /// Handles one event. If this panics, none of the messages that the application sent for the batch goes out.
    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>);

    /// Answers an HTTP request; see [`http`](crate::http). `None` means that the application answers later, with
    /// [`Network::respond`]. The default knows no path.
    fn on_http_request(
        &mut self,
        request: &HttpRequest<'_>,
        network: &mut Network<'_>,
    ) -> Option<Response> {
        let _ = (request, network);
        Some(Response::text(404, "this app publishes no routes\n"))
    }

    /// Called when a timer set with [`Network::set_timer`] or [`Network::repeat_timer`] expires, with its name, before the
    /// events of the batch. While there is no room for messages the timer waits.
    fn on_timer(&mut self, name: &str, network: &mut Network<'_>) {
        let _ = (name, network);
    }

    /// Called when the timer set with [`Network::wake_at`] expires.
    fn on_wake(&mut self, network: &mut Network<'_>) {
        let _ = network;
    }

    /// Called before the events of a batch are handled, so that an application with large tables can fetch what it will
    /// look up for all of them. It then waits for memory once and not for each event;
    /// [`HostTable::prefetch`](crate::hosts::HostTable::prefetch) is an example.
    fn look_ahead(&mut self, batch: &Batch<'_>) {
        let _ = batch;
    }

    /// Handles events of the batch from number `first` on and returns how many it handled; [`on_event`](Self::on_event)
    /// gets the next one. An application that answers runs of events in the same way is faster with it.
    ///
    /// It is called with 0 at the beginning of each batch, also for a wake-up, and then after every event that
    /// `on_event` got, including the last. Messages for an event that it does not count are sent nevertheless: before the
    /// first of several messages for an event, it checks [`Network::room`]. [`Network::stop_event`] stops an event.
    fn go_ahead(&mut self, batch: &Batch<'_>, first: usize, network: &mut Network<'_>) -> usize {
        let _ = (batch, first, network);
        0
    }

    /// Handles a batch of events, oldest first; an empty one is a wake-up. Returns how many were
    /// handled; the others come again when there is more room for messages.
    ///
    /// The default calls [`look_ahead`](Self::look_ahead), then [`go_ahead`](Self::go_ahead), and
    /// [`on_event`](Self::on_event) for events that `go_ahead` leaves, while there is room for answers.
    /// An application that handles events of a batch together implements this instead.
    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        if batch.is_empty() {
            self.on_wake(network);
        }
        self.look_ahead(batch);
        let mut number = self.go_ahead(batch, 0, network).min(batch.len());
        while number < batch.len() {
            if !network.has_room(batch.room_for_answers_to(number)) {
                return number;
            }
            network.now_handling(number);
            // A packet-in is made where it is handed on: one that is moved on its way waits for its stores each time.
            if let Some(packet_in) = batch.packet_in(number) {
                self.on_event(Event::PacketIn(packet_in), network);
            } else {
                match batch.get(number) {
                    Some(Event::Http(request)) => {
                        if let Some(response) = self.on_http_request(&request, network) {
                            network.respond_or_explain(&request, &response);
                        }
                    }
                    Some(event) => self.on_event(event, network),
                    None => {}
                }
            }
            number += 1;
            number += self.go_ahead(batch, number, network).min(batch.len() - number);
        }
        batch.len()
    }
}

/// The events of one call of an application, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    records: Records<'a>,
}

impl<'a> Batch<'a> {
    /// Makes a batch of the records that a host gave.
    pub(crate) fn new(records: Records<'a>) -> Self {
        Self { records }
    }

    /// Returns how many events there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether this is a wake-up.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }

    /// Returns event `number`, or `None` if this SDK does not know its kind or there is no such event.
    #[inline]
    pub fn get(&self, number: usize) -> Option<Event<'a>> {
        let (record, body) = self.records.get(number)?;
        Event::of(record, body)
    }

    /// Returns event `number` if it is a packet-in.
    #[inline]
    pub fn packet_in(&self, number: usize) -> Option<PacketIn<'a>> {
        let (record, body) = self.records.get(number)?;
        PacketIn::of(record, body)
    }

    /// Returns the packet-ins from number `first` on, up to the first other event.
    #[inline]
    pub fn packet_ins_from(&self, first: usize) -> impl Iterator<Item = PacketIn<'a>> {
        self.records.from(first).map_while(|(record, body)| PacketIn::of(record, body))
    }

    /// Returns all packet-ins.
    #[inline]
    pub fn packet_ins(&self) -> impl Iterator<Item = PacketIn<'a>> {
        (0..self.len()).filter_map(|number| self.packet_in(number))
    }

    /// Returns all events; `None` stands for an event of a kind that this SDK does not know.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Option<Event<'a>>> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Returns the bytes of messages to switches for which there must be room before an event is handled.
    #[inline]
    fn room_for_answers_to(&self, number: usize) -> usize {
        self.records.get(number).map_or(ANSWER_ROOM, |(record, _)| {
            // The size of an HTTP request says nothing about messages to switches.
            let is_http = record.kind == RecordKind::Http as u16;
            ANSWER_ROOM + if is_http { 0 } else { 2 * record.size as usize }
        })
    }
}
