//! Follows the actions and fields of Open vSwitch (`openflow::nicira`) in a trace.
//!
//! | action | what the trace does |
//! | --- | --- |
//! | `load`, `move`, `load_field`, `push`, `pop`, `write_metadata`, those with a standard action | as the switch |
//! | `resubmit` | looks the packet up, at most 64 deep, and returns |
//! | `clone`, `output:register`, `output(port,max_len)`, `controller`, `exit` | as the switch |
//! | `note`, `fin_timeout`, `pop_queue`, `ct_clear`, `dec_ttl`, `dec_nsh_ttl` | nothing: no match is about it |
//! | `ct`, `learn`, `conjunction`, `multipath`, `bundle`, `check_pkt_larger`, others | a note |
//!
//! A packet starts untracked: its `ct_state`, `ct_zone`, `ct_mark` and `ct_label` are 0.

use openflow::PortNo;
use openflow::nicira::{FieldId, NiciraAction, SAME_TABLE, Subfield};

use super::packet::Packet;
use super::pipeline::{Lookup, Run, To};

/// Most look-ups inside of each other, as in Open vSwitch.
const DEEPEST_LOOKUP: usize = 64;

impl<'t, 'm: 't> Run<'t, 'm> {
    /// Executes an action of Open vSwitch.
    pub(super) fn nicira(&mut self, action: &NiciraAction, depth: usize) {
        if let Some(plain) = action.plain() {
            return self.act(&plain, depth);
        }
        match action {
            NiciraAction::Load { to, value } => self.store(*to, (*value).into()),
            NiciraAction::Move { from, to } => {
                if let Some(value) = self.load(*from) {
                    self.store(*to, value);
                }
            }
            NiciraAction::Push(from) => {
                if let Some(value) = self.load(*from) {
                    self.stack.push(value);
                }
            }
            NiciraAction::Pop(to) => match self.stack.pop() {
                Some(value) => self.store(*to, value),
                None => self.note("pops an empty stack".into()),
            },
            NiciraAction::WriteMetadata { value, mask } => {
                self.packet.write_metadata(*value, *mask);
            }
            NiciraAction::Resubmit { in_port } => self.resubmit(*in_port, SAME_TABLE, depth),
            NiciraAction::ResubmitTable { in_port, table, ct } => {
                if *ct {
                    self.note("resubmit by the tracked connection: ct is not followed".into());
                }
                self.resubmit(*in_port, *table, depth);
            }
            NiciraAction::Clone(actions) => {
                let before = (self.packet.clone(), self.stack.clone());
                self.apply(actions, depth);
                (self.packet, self.stack) = before;
            }
            NiciraAction::OutputReg { from, .. } => {
                if let Some(port) = self.load(*from) {
                    self.output_to(port_of(*from, port));
                }
            }
            NiciraAction::OutputTrunc { port, .. } => self.output_to(*port),
            NiciraAction::Controller { .. } | NiciraAction::Controller2(_) => {
                self.output(To::Controller);
            }
            NiciraAction::Exit => self.has_ended = true,
            NiciraAction::Note(_)
            | NiciraAction::FinTimeout { .. }
            | NiciraAction::PopQueue
            | NiciraAction::CtClear
            | NiciraAction::DecTtlControllers(_)
            | NiciraAction::DecNshTtl => {}
            NiciraAction::Ct(_) => self.note(format!("{action} is not followed")),
            NiciraAction::Learn(_) => {
                self.note(format!("{action} is not followed: it writes a flow"));
            }
            other => self.note(format!("the action {other} is not simulated")),
        }
    }

    /// Looks the packet up in a table as from a port, and executes what it finds there.
    fn resubmit(&mut self, in_port: PortNo, table: u8, depth: usize) {
        if self.lookups >= DEEPEST_LOOKUP {
            return self.note(format!("more than {DEEPEST_LOOKUP} resubmits inside of each other"));
        }
        let (own_table, own_port) = (self.table, self.packet.in_port());
        let table = if table == SAME_TABLE { own_table } else { table };
        // Only the look-up is as from another port.
        let port = if in_port == PortNo::IN_PORT { own_port } else { in_port.0 };
        self.packet.look_up_from(port);
        let entry = self.tables.find(table, &self.packet);
        self.packet.look_up_from(own_port);
        self.trace.lookups.push(Lookup { table, entry });
        if let Some(entry) = entry {
            self.lookups += 1;
            self.table = table;
            self.execute(entry, depth);
            self.table = own_table;
            self.lookups -= 1;
        }
    }

    /// Reads bits of a field.
    fn load(&mut self, from: Subfield) -> Option<u128> {
        let value = self.packet.value_of(from.field);
        if value.is_none() {
            self.note(format!("reads {from}, which the packet lacks or the trace does not know"));
        }
        value.map(|value| value >> from.offset & ones(from.n_bits))
    }

    /// Writes bits of a field.
    fn store(&mut self, to: Subfield, value: u128) {
        let mask = ones(to.n_bits) << to.offset;
        let old = self.packet.value_of(to.field);
        let is_known = old.is_some_and(|old| {
            let value = old & !mask | value << to.offset & mask;
            self.packet.set_value(to.field, value)
        });
        if !is_known {
            self.note(format!("writes {to}, which the packet lacks or the trace does not know"));
        }
    }
}

/// The port with a number that a field has: a field of 16 bits has the numbers of OpenFlow 1.0.
fn port_of(from: Subfield, number: u128) -> PortNo {
    match u16::try_from(number) {
        Ok(number) if from.n_bits <= 16 => openflow::v1_0::port_from_wire(number),
        _ => PortNo(u32::try_from(number).unwrap_or(u32::MAX)),
    }
}

/// This many bits that are 1.
fn ones(bits: u16) -> u128 {
    u128::MAX >> 128_u16.saturating_sub(bits).min(127)
}

/// The first key of registers in a [`Packet`]; the keys before it are the numbers of OpenFlow's fields.
pub(super) const FIRST_REGISTER: u8 = 128;

/// Keys of other fields of Open vSwitch.
const OTHERS: [(&str, u8); 5] =
    [("pkt_mark", 144), ("ct_state", 145), ("ct_zone", 146), ("ct_mark", 147), ("ct_label", 148)];

/// The keys of a field of Open vSwitch, the highest bits first; each has 32 bits if there are several.
fn keys(field: FieldId) -> Vec<u8> {
    let registers = |first: u8, count: u8| {
        (first..first + count).map(|number| FIRST_REGISTER + number).collect()
    };
    match field.class_and_number() {
        (1, number @ 0..=15) => registers(number, 1),
        (0x8001, number @ 0..=7) => registers(2 * number, 2),
        (1, number @ 111..=114) => registers(4 * (number - 111), 4),
        _ => OTHERS.iter().filter(|(name, _)| *name == field.name()).map(|(_, key)| *key).collect(),
    }
}

/// The name of the field with a key from [`FIRST_REGISTER`] on.
pub(super) fn name_of_key(key: u8) -> Option<String> {
    match key.checked_sub(FIRST_REGISTER)? {
        register @ 0..=15 => Some(format!("reg{register}")),
        _ => OTHERS.iter().find(|(_, other)| *other == key).map(|(name, _)| (*name).to_owned()),
    }
}

impl Packet {
    /// Reads a field; `None` if the packet lacks it, or this module does not know it.
    pub(super) fn value_of(&self, field: FieldId) -> Option<u128> {
        if let Some(number) = field.same_as() {
            return self.number(number);
        }
        // A register that was not written is 0.
        match &keys(field)[..] {
            [] => None,
            [key] => Some(self.number(*key).unwrap_or(0)),
            keys => {
                Some(keys.iter().fold(0, |all, key| all << 32 | self.number(*key).unwrap_or(0)))
            }
        }
    }

    /// Writes a field. Returns `false` if this module does not know it.
    pub(super) fn set_value(&mut self, field: FieldId, value: u128) -> bool {
        if let Some(number) = field.same_as() {
            self.set_number(number, value);
            return true;
        }
        match &keys(field)[..] {
            [] => return false,
            [key] => self.set_number(*key, value),
            keys => {
                for (place, key) in keys.iter().rev().enumerate() {
                    self.set_number(*key, value >> (32 * place) & u128::from(u32::MAX));
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_overlap() {
        let field = |name: &str| FieldId::by_name(name).unwrap();
        let mut packet = Packet::read("in_port=1", None).unwrap();
        assert_eq!(packet.value_of(field("xxreg1")), Some(0));
        assert!(packet.set_value(field("reg4"), 1) && packet.set_value(field("reg7"), 4));
        assert_eq!(packet.value_of(field("xxreg1")), Some(1 << 96 | 4));
        assert_eq!(packet.value_of(field("xreg2")), Some(1 << 32));
        assert!(packet.set_value(field("xreg3"), 7 << 32 | 8));
        assert_eq!(
            (packet.value_of(field("reg6")), packet.value_of(field("reg7"))),
            (Some(7), Some(8))
        );
        assert!(packet.set_value(field("tun_id"), 9));
        assert_eq!(packet.value_of(field("OXM_OF_TUNNEL_ID")), Some(9));
        assert_eq!(packet.value_of(field("nw_ttl")), None);
        assert_eq!(packet.to_string(), "in_port=1,tunnel_id=9,reg4=1,reg6=7,reg7=8");
    }
}
