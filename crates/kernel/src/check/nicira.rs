//! Decides which actions of Open vSwitch an app with `experimenter:0x00002320` may use.
//!
//! An action is checked by the rules for the standard action with the same effect, and actions inside of it are checked alike.
//! "Reserved" stands for `packet-out.reserved`.
//!
//! | action | in a flow | in a packet-out or a group's bucket |
//! | --- | --- | --- |
//! | `resubmit`, `ct(table=N)` | the app may write table N | the same, and reserved |
//! | `resubmit` with another in-port | reserved | reserved |
//! | `output(port,max_len)`, members of `bundle` | as [`outputs`](super::outputs) says for the port | the same |
//! | `output:register` | reserved | reserved |
//! | `controller` | yes; with another reason reserved | reserved |
//! | writes of the in-port | reserved | reserved |
//! | writes of the ethertype by set-field; other actions do not write it | `topology.probe` | `topology.probe` |
//! | `group`, meter of `controller` | the app's own | the app's own |
//! | `learn` | no | no |
//! | `controller` with `pause` or another controller's id, `dec_ttl` with such an id | no | no |
//! | actions that the codec does not decode | no | no |
//!
//! `learn` has the switch write flows with any priority and cookie when a packet comes, so no check sees them, and no app would own
//! them. The port in a register is known only when a packet comes: it may be `NORMAL` or `CONTROLLER`. A look-up as from another
//! port takes flows of other apps that trust the in-port. A packet that pauses would wait for a message of the controller that no
//! app may send ([`past_checks`](super::past_checks)). Other ids are those of other controllers.
//!
//! `multipath` and `bundle_load` only write a field. The ids of `conjunction` and the zones of `ct` are those of the switch: apps that
//! use both must agree about them.

use openflow::nicira::{Bundle, Controller2, Ct, FieldId, NICIRA, NiciraAction, SAME_TABLE};
use openflow::{Field, PortNo};
use sdk::Refusal;

use super::outputs::ActionContext;
use super::{Rights, allow};

/// The reason of a packet-in that an action sends (`OFPR_ACTION`, OpenFlow 1.3.5 §7.4.1).
const ACTION: u8 = 1;

/// The specification's numbers of the fields in-port, physical in-port and ethertype (OpenFlow 1.3.5 §7.2.3.7).
const IN_PORTS: [u8; 2] = [0, 1];
const ETH_TYPE: u8 = 5;

impl Rights {
    /// Checks an action of Open vSwitch and the actions inside of it, whose depth the codec limits.
    #[cold]
    pub(super) fn nicira(
        &self,
        context: ActionContext,
        action: &NiciraAction,
    ) -> Result<(), Refusal> {
        allow(self.experimenters.contains(&NICIRA), Refusal::Action)?;
        if let Some(field) = action.destination() {
            self.written_field(field)?;
        }
        if let Some(plain) = action.plain() {
            return self.action(context, &plain);
        }
        action.nested().iter().try_for_each(|nested| self.action(context, nested))?;
        self.nicira_alone(context, action)
    }

    /// Checks an action without the field that it writes and the actions inside of it.
    fn nicira_alone(&self, context: ActionContext, action: &NiciraAction) -> Result<(), Refusal> {
        match action {
            NiciraAction::Resubmit { in_port } => self.lookup(context, *in_port, SAME_TABLE),
            NiciraAction::ResubmitTable { in_port, table, .. } => {
                self.lookup(context, *in_port, *table)
            }
            NiciraAction::Ct(Ct { table: Some(table), .. }) => {
                self.lookup(context, PortNo::IN_PORT, *table)
            }
            NiciraAction::OutputReg { .. } => self.reserved(),
            NiciraAction::OutputTrunc { port, .. } => {
                allow(self.outputs.allow(context, *port), Refusal::Capability)
            }
            NiciraAction::Bundle(Bundle { to: None, members, .. }) => {
                let is_allowed = |port: &PortNo| self.outputs.allow(context, *port);
                allow(members.iter().all(is_allowed), Refusal::Capability)
            }
            NiciraAction::Controller { controller_id, reason, max_len } => {
                let (controller_id, reason, max_len) = (*controller_id, *reason, *max_len);
                let same = Controller2 { controller_id, reason, max_len, ..Controller2::default() };
                self.controller(context, &same)
            }
            NiciraAction::Controller2(it) => self.controller(context, it),
            NiciraAction::DecTtlControllers(ids) => {
                allow(ids.iter().all(|id| *id == 0), Refusal::Action)
            }
            NiciraAction::Ct(Ct { table: None, .. })
            | NiciraAction::Bundle(Bundle { to: Some(_), .. })
            | NiciraAction::PopQueue
            | NiciraAction::Move { .. }
            | NiciraAction::Load { .. }
            | NiciraAction::Note(_)
            | NiciraAction::Multipath(_)
            | NiciraAction::Exit
            | NiciraAction::FinTimeout { .. }
            | NiciraAction::WriteMetadata { .. }
            | NiciraAction::Push(_)
            | NiciraAction::Pop(_)
            | NiciraAction::Conjunction { .. }
            | NiciraAction::Nat(_)
            | NiciraAction::CtClear
            | NiciraAction::Clone(_)
            | NiciraAction::DecNshTtl
            | NiciraAction::CheckPktLarger { .. }
            | NiciraAction::DeleteField(_) => Ok(()),
            _ => Err(Refusal::Action), // `learn` among them
        }
    }

    /// Checks an action that sends the packet through a table, as from `in_port`.
    fn lookup(&self, context: ActionContext, in_port: PortNo, table: u8) -> Result<(), Refusal> {
        allow(table == SAME_TABLE || self.flow_write.has(table), Refusal::Capability)?;
        if context == ActionContext::Flow && in_port == PortNo::IN_PORT {
            return Ok(());
        }
        self.reserved()
    }

    fn controller(&self, context: ActionContext, action: &Controller2) -> Result<(), Refusal> {
        allow(action.controller_id == 0 && !action.pause, Refusal::Action)?;
        allow(self.outputs.allow(context, PortNo::CONTROLLER), Refusal::Capability)?;
        if action.reason != ACTION {
            self.reserved()?;
        }
        action.meter.map_or(Ok(()), |meter| self.meter(meter))
    }

    /// Checks that the app may use ports and in-ports that the check does not know.
    fn reserved(&self) -> Result<(), Refusal> {
        allow(self.outputs.has_reserved(), Refusal::Capability)
    }

    /// Checks a field that an action writes.
    fn written_field(&self, field: FieldId) -> Result<(), Refusal> {
        match field.same_as() {
            Some(number) if IN_PORTS.contains(&number) => {
                allow(self.outputs.may_change_in_port(), Refusal::Capability)
            }
            Some(ETH_TYPE) => allow(self.topology_probe, Refusal::Capability),
            _ => Ok(()),
        }
    }

    /// Checks a field of another class than the specification's that an action sets.
    #[cold]
    pub(super) fn opaque_field(&self, field: &Field) -> Result<(), Refusal> {
        // Whose field it is does not always stand in it, so one grant stands for all.
        allow(!self.experimenters.is_empty(), Refusal::Action)?;
        FieldId::of_field(field).map_or(Ok(()), |(field, ..)| self.written_field(field))
    }
}
