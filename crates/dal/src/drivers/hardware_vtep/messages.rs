//! Reads the controller's messages: each is work for the queue, has an answer at once, or is refused.

use openflow::{FlowMod, FlowModCommand, FlowModFlags, Header, Kind};

use super::OF;
use super::ownership::Owner;
use super::refusal::Refusal;
use super::rule::{Key, Rule};
use super::selection::Selection;
use super::work::Work;

/// The task of the session with a message.
#[derive(Debug)]
pub(super) enum Task {
    /// Nothing.
    None,
    /// To send this answer at once.
    Answer(Vec<u8>),
    /// To queue work.
    Queue(Work),
}

impl Task {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Refusal`]: the device has nothing of the kind.
    pub(super) fn of(header: Header, message: &[u8]) -> Result<Self, Refusal> {
        let malformed = |error: String| Refusal::Malformed(error);
        let kind =
            Kind::from_wire(OF, header.kind).map_err(|error| malformed(error.to_string()))?;
        match kind {
            Kind::Hello | Kind::SetConfig => Ok(Self::None), // a marker; packets are not sent, whatever their size
            Kind::EchoRequest => {
                let mut reply = Vec::new();
                openflow::append(&mut reply, |out| openflow::echo_reply(message, out))
                    .map_err(|error| malformed(error.to_string()))?;
                Ok(Self::Answer(reply))
            }
            Kind::BarrierRequest => Ok(Self::Queue(Work::Barrier)),
            Kind::MultipartRequest => Ok(Self::Queue(Work::Request(message.to_vec()))),
            Kind::FlowMod => Ok(Self::Queue(flow_mod(message)?)),
            Kind::PacketOut => Err(Refusal::Packets),
            kind => Err(Refusal::Kind(kind.name().to_owned())),
        }
    }
}

/// Reads a flow-mod.
fn flow_mod(message: &[u8]) -> Result<Work, Refusal> {
    let flow_mod =
        FlowMod::decode(message).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let command = flow_mod.command;
    if command.is_delete() {
        let is_strict = command == FlowModCommand::DeleteStrict;
        return Ok(Work::Delete(Selection::of_flow_mod(&flow_mod, is_strict)));
    }
    if flow_mod.table_id != 0 {
        return Err(Refusal::Table(flow_mod.table_id));
    }
    if flow_mod.buffer_id.is_some() {
        return Err(Refusal::Buffer);
    }
    if command != FlowModCommand::Add {
        let is_strict = command == FlowModCommand::ModifyStrict;
        let selection = Selection::of_flow_mod(&flow_mod, is_strict);
        return Ok(Work::Modify(selection, message.to_vec()));
    }
    if (flow_mod.idle_timeout, flow_mod.hard_timeout) != (0, 0) {
        return Err(Refusal::Timeouts);
    }
    if flow_mod.flags.contains(FlowModFlags::CHECK_OVERLAP) {
        return Err(Refusal::CheckOverlap);
    }
    let rule = Rule::new(Key::of(&flow_mod.match_)?, &flow_mod.instructions)?;
    // That counters begin again is no property of the flow.
    let flags = FlowModFlags(flow_mod.flags.0 & !FlowModFlags::RESET_COUNTS.0);
    let owner = Owner { cookie: flow_mod.cookie, priority: flow_mod.priority, flags };
    Ok(Work::Put(rule, owner))
}
