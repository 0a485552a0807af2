//! Flow entries: encoded, installed in Open vSwitch, and read back.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use openflow::{
    Action, FlowMod, FlowModFlags, FlowStats, FlowStatsRequest, Match, MultipartReply,
    MultipartRequest, PortNo, ReplyBody,
};
use rosemary_tests::in_a_lab;

use super::{CapturedSession, groups_and_meters, v1_0, v1_3};

/// An entry to add, and the text that `ovs-ofctl dump-flows` must show.
pub(super) struct Entry {
    pub(super) match_: Match,
    pub(super) apply: Vec<Action>,
    pub(super) write: Vec<Action>,
    /// Sets the remaining fields.
    pub(super) rest: fn(FlowMod<'_>) -> FlowMod<'_>,
    pub(super) text: Vec<&'static str>,
}

impl Entry {
    /// Creates an entry that outputs to port 2.
    pub(super) fn for_match(match_: Match, text: &[&'static str]) -> Self {
        let apply = vec![Action::output(PortNo(2))];
        Self { match_, apply, write: Vec::new(), rest: |flow_mod| flow_mod, text: text.to_vec() }
    }

    /// Creates an entry with this match and these actions.
    pub(super) fn for_actions(match_: Match, apply: &[Action], text: &[&'static str]) -> Self {
        Self { apply: apply.to_vec(), ..Self::for_match(match_, text) }
    }

    /// Sets the function for the remaining fields.
    pub(super) fn with(self, rest: fn(FlowMod<'_>) -> FlowMod<'_>) -> Self {
        Self { rest, ..self }
    }

    /// Returns the flow-mod with a number that distinguishes it: in its cookie and, because many
    /// matches are equal, in its priority.
    fn flow_mod(&self, number: u16) -> FlowMod<'_> {
        let flow_mod = FlowMod::add(self.match_.clone()).apply(&self.apply).write(&self.write);
        (self.rest)(flow_mod.priority(1000 + number).cookie(number.into()))
    }
}

#[test]
fn flow_entries_round_trip_over_openflow_1_0() {
    in_a_lab(|lab| entries_come_back_equal(lab, Of::V1_0, &v1_0::entries()));
}

#[test]
fn flow_entries_round_trip_over_openflow_1_3() {
    in_a_lab(|lab| entries_come_back_equal(lab, Of::V1_3, &v1_3::entries()));
}

fn entries_come_back_equal(lab: &Lab, of: Of, entries: &[Entry]) -> anyhow::Result<()> {
    let mut wire = CapturedSession::start(lab, of)?;
    if of == Of::V1_3 {
        groups_and_meters::add(&mut wire.controller)?; // referenced by the entries
    }
    let mut sent = HashMap::new();
    for (entry, number) in entries.iter().zip(1..) {
        let flow_mod = entry.flow_mod(number);
        let xid = wire.controller.send(|version, xid, out| flow_mod.encode(version, xid, out));
        sent.insert(xid.with_context(|| format!("entry {number}: {flow_mod:?}"))?, number);
    }
    let errors = wire.controller.barrier()?;
    let errors: Vec<_> = errors.iter().map(|(xid, what)| (sent.get(xid), what)).collect();
    ensure!(errors.is_empty(), "refused, with the number of the entry: {errors:#?}");

    let request = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
    let parts = wire.controller.ask(&request)?;
    let mut found = HashMap::new();
    for part in &parts {
        let ReplyBody::Flow(flows) = MultipartReply::decode(part)?.body else {
            anyhow::bail!("not flow statistics: {part:x?}");
        };
        found.extend(flows.into_iter().map(|flow| (flow.cookie, flow)));
    }
    let dumped = wire.switch.dump_flows()?;
    for (entry, number) in entries.iter().zip(1..) {
        let flow_mod = entry.flow_mod(number);
        let flow = found.remove(&number.into()).with_context(|| format!("no entry {number}"))?;
        assert_eq!(flow, as_told(&flow_mod, of, &flow), "entry {number}");

        let cookie = format!("cookie={number:#x},");
        let line = dumped.iter().find(|line| line.contains(&cookie));
        let line = line.with_context(|| format!("ovs-ofctl does not show {cookie}"))?;
        for text in &entry.text {
            // A field ends with a comma or blank; "tp_dst=80" must not match "tp_dst=8080".
            let said = line.split([' ', ',']).any(|word| word == *text) || ends_there(line, text);
            ensure!(said, "entry {number}: \"{text}\" is not in: {line}");
        }
    }
    assert!(found.is_empty(), "entries nobody added: {found:#?}");
    println!("{} entries came back equal, as ovs-ofctl shows them too", entries.len());
    wire.read_capture().map(drop)
}

/// Whether the line contains the text, not followed by more of the same field.
fn ends_there(line: &str, text: &str) -> bool {
    line.match_indices(text).any(|(at, _)| {
        line[at + text.len()..].chars().next().is_none_or(|c| matches!(c, ' ' | ',' | ')'))
    })
}

/// Returns the expected statistics of an entry: the flow-mod's fields with the switch's counters.
fn as_told<'a>(flow_mod: &FlowMod<'a>, of: Of, told: &FlowStats<'_>) -> FlowStats<'a> {
    FlowStats {
        table_id: flow_mod.table_id,
        duration: told.duration,
        importance: flow_mod.importance,
        priority: flow_mod.priority,
        idle_timeout: flow_mod.idle_timeout,
        hard_timeout: flow_mod.hard_timeout,
        flags: if of == Of::V1_0 { FlowModFlags::default() } else { flow_mod.flags },
        cookie: flow_mod.cookie,
        packet_count: told.packet_count,
        byte_count: told.byte_count,
        match_: flow_mod.match_.clone(),
        instructions: flow_mod.instructions,
    }
}

#[test]
fn modify_and_delete_work_over_openflow_1_0() {
    in_a_lab(|lab| modify_and_delete_do_what_they_say(lab, Of::V1_0));
}

#[test]
fn modify_and_delete_work_over_openflow_1_3() {
    in_a_lab(|lab| modify_and_delete_do_what_they_say(lab, Of::V1_3));
}

fn modify_and_delete_do_what_they_say(lab: &Lab, of: Of) -> anyhow::Result<()> {
    use openflow::FlowModCommand::{Delete, DeleteStrict, Modify, ModifyStrict};
    let mut wire = CapturedSession::start(lab, of)?;
    let to = |port| [Action::output(PortNo(port))];
    let (to_1, to_2, to_3) = (to(1), to(2), to(3));
    let tcp = || Match::new().eth_type(0x0800).ip_proto(6);
    let web = || tcp().tcp_dst(80);
    let arp = || Match::new().eth_type(0x0806);
    let mods = [
        FlowMod::add(tcp()).priority(1).apply(&to_1),
        FlowMod::add(web()).priority(2).apply(&to_1),
        FlowMod::add(web()).priority(3).apply(&to_1),
        FlowMod::add(arp()).priority(4).apply(&to_1),
        FlowMod::add(arp()).priority(5).apply(&to_2),
        FlowMod::new(Modify, tcp()).apply(&to_2),
        FlowMod::new(ModifyStrict, web()).priority(3).apply(&to_3),
        FlowMod::new(DeleteStrict, web()).priority(2),
        FlowMod::new(Delete, arp()).out_port(PortNo(2)),
    ];
    for flow_mod in &mods {
        wire.controller.send(|version, xid, out| flow_mod.encode(version, xid, out))?;
    }
    wire.controller.must_all_be_accepted()?;
    let mut left: Vec<_> = wire
        .switch
        .dump_flows()?
        .iter()
        .filter_map(|line| Some(line[line.find("priority=")?..].to_owned()))
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "priority=1,tcp actions=output:2",
            "priority=3,tcp,tp_dst=80 actions=output:3",
            "priority=4,arp actions=output:1",
        ]
    );
    wire.read_capture().map(drop)
}
