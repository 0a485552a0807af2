//! Formats actions of Open vSwitch as `ovs-ofctl` does.

use core::fmt::{Display, Formatter, Result};

use super::controller::Controller2;
use super::field::{FieldId, Subfield};
use super::learn::{Learn, LearnDestination, LearnSource, LearnSpec};
use super::spread::{Bundle, Multipath};
use super::tracking::{Ct, CtZone, Nat};
use super::{NiciraAction, SAME_TABLE};
use crate::{Action, PortNo};

/// `max_len` of the whole packet.
const WHOLE: u16 = 0xffff;

/// Writes items, separated by commas.
struct Items<'f, 'a> {
    f: &'f mut Formatter<'a>,
    separator: &'static str,
}

impl Items<'_, '_> {
    fn add(&mut self, item: impl Display) -> Result {
        let separator = std::mem::replace(&mut self.separator, ",");
        write!(self.f, "{separator}{item}")
    }
}

/// Writes actions, separated by commas.
fn actions(f: &mut Formatter<'_>, actions: &[Action]) -> Result {
    let mut items = Items { f, separator: "" };
    actions.iter().try_for_each(|action| items.add(action))
}

impl NiciraAction {
    /// Returns the name of the action, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resubmit { .. } | Self::ResubmitTable { .. } => "action resubmit",
            Self::SetTunnel(_) | Self::SetTunnel64(_) => "action set_tunnel",
            Self::SetQueue(_) => "Nicira's action set_queue",
            Self::PopQueue => "action pop_queue",
            Self::Move { .. } => "action move",
            Self::Load { .. } => "action load",
            Self::LoadField(_) => "action load_field",
            Self::Note(_) => "action note",
            Self::Multipath(_) => "action multipath",
            Self::Bundle(_) => "action bundle",
            Self::OutputReg { .. } => "action output_reg",
            Self::Learn(_) => "action learn",
            Self::Exit => "action exit",
            Self::DecTtl | Self::DecTtlControllers(_) => "Nicira's action dec_ttl",
            Self::FinTimeout { .. } => "action fin_timeout",
            Self::Controller { .. } | Self::Controller2(_) => "action controller",
            Self::WriteMetadata { .. } => "action write_metadata",
            Self::PushMpls(_) => "Nicira's action push_mpls",
            Self::PopMpls(_) => "Nicira's action pop_mpls",
            Self::SetMplsTtl(_) => "Nicira's action set_mpls_ttl",
            Self::DecMplsTtl => "Nicira's action dec_mpls_ttl",
            Self::SetMplsLabel(_) => "Nicira's action set_mpls_label",
            Self::SetMplsTc(_) => "Nicira's action set_mpls_tc",
            Self::Push(_) => "action push",
            Self::Pop(_) => "action pop",
            Self::Conjunction { .. } => "action conjunction",
            Self::Ct(_) => "action ct",
            Self::Nat(_) => "action nat",
            Self::CtClear => "action ct_clear",
            Self::OutputTrunc { .. } => "action output_trunc",
            Self::Group(_) => "Nicira's action group",
            Self::Clone(_) => "action clone",
            Self::DecNshTtl => "action dec_nsh_ttl",
            Self::CheckPktLarger { .. } => "action check_pkt_larger",
            Self::DeleteField(_) => "action delete_field",
        }
    }
}

impl Display for NiciraAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Resubmit { in_port } => write!(f, "resubmit:{in_port}"),
            Self::ResubmitTable { in_port, table, ct } => resubmit(f, *in_port, *table, *ct),
            Self::SetTunnel(id) => write!(f, "set_tunnel:{}", Hex((*id).into())),
            Self::SetTunnel64(id) => write!(f, "set_tunnel64:{}", Hex((*id).into())),
            Self::SetQueue(queue) => write!(f, "set_queue:{queue}"),
            Self::PopQueue => f.write_str("pop_queue"),
            Self::Move { from, to } => write!(f, "move:{from}->{to}"),
            Self::Load { to, value } => write!(f, "load:{}->{to}", Hex((*value).into())),
            Self::LoadField(field) => match FieldId::of_field(field) {
                Some((id, value, Some(mask))) => {
                    write!(f, "set_field:{}/{}->{}", Hex(value), Hex(mask), id.name())
                }
                Some((id, value, None)) => write!(f, "set_field:{}->{}", Hex(value), id.name()),
                None => write!(f, "set_field:{field}"),
            },
            Self::Note(data) => write!(f, "note:{}", Dotted(data)),
            Self::Multipath(it) => multipath(f, it),
            Self::Bundle(it) => bundle(f, it),
            Self::OutputReg { from, .. } => write!(f, "output:{from}"),
            Self::Learn(it) => learn(f, it),
            Self::Exit => f.write_str("exit"),
            Self::DecTtl => f.write_str("dec_ttl"),
            Self::DecTtlControllers(ids) => {
                f.write_str("dec_ttl(")?;
                let mut items = Items { f, separator: "" };
                ids.iter().try_for_each(|id| items.add(id))?;
                f.write_str(")")
            }
            Self::FinTimeout { idle, hard } => {
                f.write_str("fin_timeout(")?;
                let mut items = Items { f, separator: "" };
                if *idle != 0 {
                    items.add(format_args!("idle_timeout={idle}"))?;
                }
                if *hard != 0 {
                    items.add(format_args!("hard_timeout={hard}"))?;
                }
                f.write_str(")")
            }
            Self::Controller { max_len, controller_id, reason } => {
                let (max_len, controller_id, reason) = (*max_len, *controller_id, *reason);
                let it = Controller2 { max_len, controller_id, reason, ..Controller2::default() };
                controller(f, &it)
            }
            Self::Controller2(it) => controller(f, it),
            Self::WriteMetadata { value, mask: u64::MAX } => write!(f, "write_metadata:{value:#x}"),
            Self::WriteMetadata { value, mask } => write!(f, "write_metadata:{value:#x}/{mask:#x}"),
            Self::PushMpls(ethertype) => write!(f, "push_mpls:{ethertype:#06x}"),
            Self::PopMpls(ethertype) => write!(f, "pop_mpls:{ethertype:#06x}"),
            Self::SetMplsTtl(ttl) => write!(f, "set_mpls_ttl({ttl})"),
            Self::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Self::SetMplsLabel(label) => write!(f, "set_mpls_label({label})"),
            Self::SetMplsTc(class) => write!(f, "set_mpls_tc({class})"),
            Self::Push(bits) => write!(f, "push:{bits}"),
            Self::Pop(bits) => write!(f, "pop:{bits}"),
            Self::Conjunction { clause, n_clauses, id } => {
                write!(f, "conjunction({id},{}/{n_clauses})", u16::from(*clause) + 1)
            }
            Self::Ct(it) => ct(f, it),
            Self::Nat(it) => nat(f, it),
            Self::CtClear => f.write_str("ct_clear"),
            Self::OutputTrunc { port, max_len } => {
                write!(f, "output(port={port},max_len={max_len})")
            }
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Clone(list) => {
                f.write_str("clone(")?;
                actions(f, list)?;
                f.write_str(")")
            }
            Self::DecNshTtl => f.write_str("dec_nsh_ttl"),
            Self::CheckPktLarger { pkt_len, to } => write!(f, "check_pkt_larger({pkt_len})->{to}"),
            Self::DeleteField(field) => {
                write!(
                    f,
                    "delete_field:{}",
                    field.to_string().trim_start_matches("NXM_NX_").to_lowercase()
                )
            }
        }
    }
}

/// A number in hexadecimal; 0 has no prefix.
struct Hex(u128);

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{:#x}", self.0) }
    }
}

/// Bytes in hexadecimal, with dots between them.
struct Dotted<'a>(&'a [u8]);

impl Display for Dotted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{byte:02x}")?;
        }
        Ok(())
    }
}

fn resubmit(f: &mut Formatter<'_>, in_port: PortNo, table: u8, ct: bool) -> Result {
    if table == SAME_TABLE && !ct {
        return write!(f, "resubmit:{in_port}");
    }
    f.write_str("resubmit(")?;
    if in_port != PortNo::IN_PORT {
        write!(f, "{in_port}")?;
    }
    f.write_str(",")?;
    if table != SAME_TABLE {
        write!(f, "{table}")?;
    }
    f.write_str(if ct { ",ct)" } else { ")" })
}

fn multipath(f: &mut Formatter<'_>, it: &Multipath) -> Result {
    let links = u32::from(it.max_link) + 1;
    let (fields, algorithm) = (it.fields.name(), it.algorithm.name());
    write!(f, "multipath({fields},{},{algorithm},{links},{},{})", it.basis, it.arg, it.to)
}

fn bundle(f: &mut Formatter<'_>, it: &Bundle) -> Result {
    let name = if it.to.is_some() { "bundle_load" } else { "bundle" };
    write!(f, "{name}({},{},{},ofport,", it.fields.name(), it.basis, it.algorithm.name())?;
    if let Some(to) = it.to {
        write!(f, "{to},")?;
    }
    f.write_str("members:")?;
    let mut items = Items { f, separator: "" };
    it.members.iter().try_for_each(|member| items.add(member))?;
    f.write_str(")")
}

fn controller(f: &mut Formatter<'_>, it: &Controller2) -> Result {
    let is_plain = it.controller_id == 0 && it.reason == 1;
    if is_plain && it.userdata.is_empty() && !it.pause && it.meter.is_none() {
        return write!(f, "CONTROLLER:{}", it.max_len);
    }
    f.write_str("controller(")?;
    let mut items = Items { f, separator: "" };
    if it.reason != 1 {
        items.add(format_args!("reason={}", crate::PacketInReason::from_wire(it.reason)))?;
    }
    if it.max_len != WHOLE {
        items.add(format_args!("max_len={}", it.max_len))?;
    }
    if it.controller_id != 0 {
        items.add(format_args!("id={}", it.controller_id))?;
    }
    if !it.userdata.is_empty() {
        items.add(format_args!("userdata={}", Dotted(&it.userdata)))?;
    }
    if it.pause {
        items.add("pause")?;
    }
    if let Some(meter) = it.meter {
        items.add(format_args!("meter_id={meter}"))?;
    }
    f.write_str(")")
}

fn ct(f: &mut Formatter<'_>, it: &Ct) -> Result {
    f.write_str("ct(")?;
    let mut items = Items { f, separator: "" };
    if it.commit {
        items.add("commit")?;
    }
    if it.force {
        items.add("force")?;
    }
    if let Some(table) = it.table {
        items.add(format_args!("table={table}"))?;
    }
    match it.zone {
        CtZone::Number(0) => {}
        CtZone::Number(zone) => items.add(format_args!("zone={zone}"))?,
        CtZone::Field(bits) => items.add(format_args!("zone={bits}"))?,
    }
    let is_nat = |action: &&Action| matches!(action, Action::Nicira(it) if matches!(**it, NiciraAction::Nat(_)));
    for nat in it.actions.iter().filter(is_nat) {
        items.add(nat)?;
    }
    let others: Vec<Action> = it.actions.iter().filter(|it| !is_nat(it)).cloned().collect();
    if !others.is_empty() {
        items.add("exec(")?;
        actions(items.f, &others)?;
        items.f.write_str(")")?;
    }
    match it.alg {
        0 => {}
        21 => items.add("alg=ftp")?,
        69 => items.add("alg=tftp")?,
        alg => items.add(format_args!("alg={alg}"))?,
    }
    f.write_str(")")
}

fn nat(f: &mut Formatter<'_>, it: &Nat) -> Result {
    f.write_str("nat")?;
    if !it.src && !it.dst {
        return Ok(());
    }
    f.write_str(if it.src { "(src" } else { "(dst" })?;
    if let Some(range) = it.range {
        let in_brackets = range.min.is_ipv6() && range.min_port.is_some();
        let (open, close) = if in_brackets { ("[", "]") } else { ("", "") };
        write!(f, "={open}{}", range.min)?;
        f.write_str(close)?;
        if let Some(max) = range.max {
            write!(f, "-{open}{max}{close}")?;
        }
        if let Some(port) = range.min_port {
            write!(f, ":{port}")?;
        }
        if let Some(port) = range.max_port {
            write!(f, "-{port}")?;
        }
    }
    for (is_set, name) in [(it.persistent, "persistent"), (it.hash, "hash"), (it.random, "random")]
    {
        if is_set {
            write!(f, ",{name}")?;
        }
    }
    f.write_str(")")
}

fn learn(f: &mut Formatter<'_>, it: &Learn) -> Result {
    write!(f, "learn(table={}", it.table)?;
    let number = |f: &mut Formatter<'_>, name: &str, value: u32, default: u32| match value {
        value if value == default => Ok(()),
        value => write!(f, ",{name}={value}"),
    };
    number(f, "idle_timeout", it.idle_timeout.into(), 0)?;
    number(f, "hard_timeout", it.hard_timeout.into(), 0)?;
    number(f, "fin_idle_timeout", it.fin_idle_timeout.into(), 0)?;
    number(f, "fin_hard_timeout", it.fin_hard_timeout.into(), 0)?;
    number(f, "priority", it.priority.into(), 0x8000)?;
    for (is_set, name) in
        [(it.send_flow_rem, "send_flow_rem"), (it.delete_learned, "delete_learned")]
    {
        if is_set {
            write!(f, ",{name}")?;
        }
    }
    if it.cookie != 0 {
        write!(f, ",cookie={:#x}", it.cookie)?;
    }
    number(f, "limit", it.limit, 0)?;
    if let Some(bit) = it.result {
        write!(f, ",result_dst={bit}")?;
    }
    for spec in &it.specs {
        f.write_str(",")?;
        learn_spec(f, spec)?;
    }
    f.write_str(")")
}

fn learn_spec(f: &mut Formatter<'_>, spec: &LearnSpec) -> Result {
    let n_bits = spec.n_bits;
    let part = |field, offset| Subfield { field, offset, n_bits };
    let source = |f: &mut Formatter<'_>| match spec.from {
        LearnSource::Field { field, offset } => write!(f, "{}", part(field, offset)),
        LearnSource::Number(number) => write!(f, "{}", Hex(number)),
    };
    match spec.to {
        LearnDestination::Match { field, offset } => {
            let to = part(field, offset);
            let is_same = spec.from == LearnSource::Field { field, offset };
            if let (LearnSource::Number(number), true) = (spec.from, to == Subfield::whole(field)) {
                let name = field.same_as().and_then(crate::Field::name_of).unwrap_or(field.name());
                return write!(f, "{name}={}", Hex(number));
            }
            write!(f, "{to}")?;
            if is_same { Ok(()) } else { f.write_str("=").and_then(|()| source(f)) }
        }
        LearnDestination::Load { field, offset } => {
            f.write_str("load:")?;
            source(f)?;
            write!(f, "->{}", part(field, offset))
        }
        LearnDestination::Output => f.write_str("output:").and_then(|()| source(f)),
    }
}
