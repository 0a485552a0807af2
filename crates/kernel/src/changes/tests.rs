//! Replays scripts between the state machine and invented switches of all versions.

use openflow::{
    Bucket, BundleAdd, FlowMod, GroupKind, GroupMod, GroupModCommand, Header, Match, MeterFlags,
    MeterMod, MeterModCommand, Version,
};

use super::output::FLAGS;
use super::*;
use crate::check::Allowed;
use crate::rewrite;

const BUNDLES: [Version; 3] = [Version::V1_3, Version::V1_4, Version::V1_5];

/// One change.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a few values in tests")]
enum Change {
    Flow(FlowMod<'static>),
    Group(GroupModCommand, u32),
    Meter(MeterModCommand, u32),
}

use Change::{Flow, Group, Meter};

/// Adds the flow with this priority and cookie.
fn add(priority: u16, cookie: u64) -> Change {
    Flow(FlowMod::add(Match::new()).priority(priority).cookie(cookie))
}

/// Deletes all flows with this cookie.
fn delete(cookie: u64) -> Change {
    let all = FlowMod::delete(Match::new());
    Flow(FlowMod { cookie, cookie_mask: u64::MAX, ..all })
}

/// Deletes the flow with this priority.
fn strict(priority: u16) -> Change {
    let command = openflow::FlowModCommand::DeleteStrict;
    Flow(FlowMod { command, ..FlowMod::delete(Match::new()).priority(priority) })
}

fn encoded(change: &Change, version: Version) -> (Vec<u8>, Allowed) {
    let mut out = Vec::new();
    let allowed = match change {
        Flow(flow_mod) => {
            openflow::append(&mut out, |out| flow_mod.encode(version, 0, out)).unwrap();
            Allowed::FlowMod { sweeps: None, adds_to: None, deletes: false }
        }
        Group(command, group_id) => {
            let (command, kind, group_id) = (*command, GroupKind::All, *group_id);
            let is_deleted = command == GroupModCommand::Delete;
            let buckets = if is_deleted { Vec::new() } else { vec![Bucket::new(Vec::new())] };
            let group_mod = GroupMod { command, kind, group_id, buckets };
            openflow::append(&mut out, |out| group_mod.encode(version, 0, out)).unwrap();
            Allowed::GroupMod { deletes: false }
        }
        Meter(command, meter_id) => {
            let (command, meter_id, flags) = (*command, *meter_id, MeterFlags(1));
            let meter_mod = MeterMod { command, flags, meter_id, bands: Vec::new() };
            openflow::append(&mut out, |out| meter_mod.encode(version, 0, out)).unwrap();
            Allowed::MeterMod { deletes: false }
        }
    };
    (out, allowed)
}

fn set(app: usize, number: u32, version: Version, changes: &[Change]) -> ChangeSet {
    let (mut bytes, mut messages) = (Vec::new(), Vec::new());
    for change in changes {
        let (message, allowed) = encoded(change, version);
        messages.push((bytes.len()..bytes.len() + message.len(), allowed));
        bytes.extend(message);
    }
    let sender = Sender { app: AppSlot::new(app), life: 1, xid: number };
    ChangeSet::new(sender, None, version, &bytes, messages.into_iter()).unwrap()
}

/// The machine for one switch.
struct Script {
    version: Version,
    changes: Changes,
    now: Instant,
    next_xid: u32,
    /// The messages that were sent last: texts, transaction ids, and bytes.
    sent: Vec<(String, u32, Vec<u8>)>,
    outcomes: Vec<Outcome>,
}

impl Script {
    fn new(version: Version) -> Self {
        let (sent, outcomes) = (Vec::new(), Vec::new());
        let changes = Changes::default();
        Self { version, changes, now: Instant::now(), next_xid: 100, sent, outcomes }
    }

    fn with(version: Version, changes: &[Change]) -> Self {
        let mut script = Self::new(version);
        script.push(changes);
        script
    }

    fn push(&mut self, changes: &[Change]) {
        self.changes.push(set(1, 7, self.version, changes));
        self.advance();
    }

    fn advance(&mut self) {
        let mut out = Vec::new();
        while self.changes.next().is_some() {
            let next_xid = &mut self.next_xid;
            let xids = |count| std::mem::replace(next_xid, next_xid.wrapping_add(count));
            let mut output = Output { version: self.version, xids, out: &mut out };
            let (_, finished) = self.changes.advance(&mut output, self.now);
            self.outcomes.extend(finished.into_iter().map(|it| it.outcome));
        }
        if out.is_empty() {
            return;
        }
        self.sent.clear();
        let mut rest = &out[..];
        while !rest.is_empty() {
            let size = usize::from(Header::decode(rest).unwrap().length);
            let (message, behind) = rest.split_at(size);
            self.sent.push((text(message), rewrite::xid(message), message.to_vec()));
            rest = behind;
        }
    }

    /// The texts of the messages that were sent last.
    fn sent(&self) -> Vec<&str> {
        self.sent.iter().map(|(text, ..)| text.as_str()).collect()
    }

    /// Answers message `number` of `sent`.
    fn answer(&mut self, number: usize) {
        let (_, xid, message) = self.sent[number].clone();
        let mut reply = Vec::new();
        let version = self.version;
        let kind = match BundleControl::decode(&message) {
            Ok(control) => {
                let command = match control.command {
                    BundleCommand::OpenRequest => BundleCommand::OpenReply,
                    BundleCommand::CloseRequest => BundleCommand::CloseReply,
                    BundleCommand::CommitRequest => BundleCommand::CommitReply,
                    _ => BundleCommand::DiscardReply,
                };
                let control = BundleControl { command, ..control };
                openflow::append(&mut reply, |out| control.encode(version, xid, out)).unwrap();
                Kind::from_wire(version, reply[1]).unwrap()
            }
            Err(_) => Kind::BarrierReply,
        };
        assert!(self.changes.reply(xid, kind, &reply));
        self.advance();
    }

    /// Answers the last message.
    fn answer_last(&mut self) {
        self.answer(self.sent.len() - 1);
    }

    /// Refuses message `number` of `sent`.
    fn refuse(&mut self, number: usize, kind: u16, code: u16) {
        let xid = self.sent[number].1;
        self.refuse_xid(xid, kind, code);
        self.advance();
    }

    fn refuse_xid(&mut self, xid: u32, kind: u16, code: u16) {
        let onf = 0x4f4e_4600_u32.to_be_bytes();
        // As Open vSwitch has the errors about bundles in 1.3.
        let (kind, code, data) = match (self.version, kind) {
            (Version::V1_3, 17) => (0xffff, 2300 + code, &onf[..]),
            _ => (kind, code, &[][..]),
        };
        let error = ErrorMessage { version: self.version, kind, code, data };
        assert!(self.changes.error(xid, &error));
    }

    fn wait(&mut self) {
        self.now += PATIENCE;
        self.changes.expire(self.now);
        self.advance();
    }

    /// The only outcome, which an error decided: index and whether changes remain.
    fn failed(&self) -> (Option<usize>, bool) {
        let [Outcome::Failed { index, is_partial, error }] = &self.outcomes[..] else {
            panic!("{:?}", self.outcomes);
        };
        let error = ErrorMessage::decode(error).unwrap();
        assert_eq!((error.version, error.kind != 0), (self.version, true));
        (*index, *is_partial)
    }
}

/// `open 1`, `1: flow 5` for a flow-mod of priority 5 in bundle 1, `barrier`, `group 2`.
fn text(message: &[u8]) -> String {
    if let Ok(BundleControl { bundle_id, command, flags, .. }) = BundleControl::decode(message) {
        assert_eq!(flags, FLAGS);
        let command = match command {
            BundleCommand::OpenRequest => "open",
            BundleCommand::CloseRequest => "close",
            BundleCommand::CommitRequest => "commit",
            BundleCommand::DiscardRequest => "discard",
            other => panic!("{other:?}"),
        };
        return format!("{command} {bundle_id}");
    }
    if let Ok(BundleAdd { bundle_id, message: inner, flags, .. }) = BundleAdd::decode(message) {
        assert_eq!((flags, rewrite::xid(inner)), (FLAGS, rewrite::xid(message)));
        return format!("{bundle_id}: {}", text(inner));
    }
    if let Ok(FlowMod { command, priority, cookie, .. }) = FlowMod::decode(message) {
        return match command {
            openflow::FlowModCommand::Delete => format!("delete {cookie}"),
            _ => format!("flow {priority}"),
        };
    }
    if let Ok(GroupMod { command, group_id, .. }) = GroupMod::decode(message) {
        let is_deleted = command == GroupModCommand::Delete;
        return format!("{}group {group_id}", if is_deleted { "no " } else { "" });
    }
    if let Ok(MeterMod { command, meter_id, .. }) = MeterMod::decode(message) {
        let is_deleted = command == MeterModCommand::Delete;
        return format!("{}meter {meter_id}", if is_deleted { "no " } else { "" });
    }
    let header = Header::decode(message).unwrap();
    let version = Version::from_wire(header.version).unwrap();
    assert_eq!(Kind::from_wire(version, header.kind), Ok(Kind::BarrierRequest));
    "barrier".to_owned()
}

#[test]
fn bundle_is_closed_before_it_is_committed() {
    for version in BUNDLES {
        let mut script = Script::with(version, &[delete(1), add(5, 2)]);
        assert_eq!(script.sent(), ["open 1"], "{version}");
        script.answer(0);
        assert_eq!(script.sent(), ["1: delete 1", "1: flow 5", "close 1"]);
        script.answer_last();
        assert_eq!(script.sent(), ["commit 1"]);
        assert_eq!(script.outcomes, []);
        script.answer(0);
        assert_eq!(script.outcomes, [Outcome::Atomic { outside: 0 }]);
        script.push(&[add(6, 2)]);
        assert_eq!(script.sent(), ["open 2", "2: flow 6", "close 2"], "no second trial");
        script.answer(0);
        assert_eq!(script.sent().len(), 3, "the open reply is no reason for a commit");
        script.answer_last();
        assert_eq!(script.sent(), ["commit 2"]);
        script.answer(0);
        assert_eq!(script.outcomes.len(), 2);
    }
}

#[test]
fn switch_without_bundles_gets_additions_first() {
    // BAD_REQUEST/BAD_EXPERIMENTER, BAD_REQUEST/BAD_TYPE, BUNDLE_FAILED/BAD_FLAGS.
    let refusals = [(Version::V1_3, 1, 3), (Version::V1_4, 1, 1), (Version::V1_5, 17, 7)];
    let without = [Version::V1_0, Version::V1_1, Version::V1_2].map(|it| (it, 0, 0));
    for (version, kind, code) in refusals.into_iter().chain(without) {
        let changes = [strict(4), add(5, 2)];
        let mut script = Script::with(version, &changes);
        if kind != 0 {
            assert_eq!(script.sent(), ["open 1"], "{version}");
            script.refuse(0, kind, code);
        }
        for round in 1..=2 {
            assert_eq!(script.sent(), ["flow 5", "barrier"], "{version}");
            script.answer_last();
            assert_eq!(script.sent(), ["flow 4", "barrier"]);
            script.answer_last();
            assert_eq!(script.outcomes, vec![Outcome::Ordered; round]);
            script.push(&changes);
        }
    }
}

#[test]
fn refused_message_discards_the_bundle() {
    for version in BUNDLES {
        let changes = [add(5, 2), add(6, 2), add(7, 2)];
        let mut script = Script::with(version, &changes);
        script.answer(0);
        script.refuse(1, 2, 4);
        assert_eq!(script.sent().len(), 4, "it waits for the close reply");
        script.refuse(2, 2, 5);
        script.answer_last();
        assert_eq!(script.sent(), ["discard 1"], "{version}");
        assert_eq!(script.failed(), (Some(1), false), "the first error counts");
        // The open request fails, and with it all behind it.
        script.outcomes.clear();
        script.push(&changes);
        for number in 0..5 {
            script.refuse(number, 17, 5);
        }
        assert_eq!(script.failed(), (None, false));
    }
}

#[test]
fn failed_commit_names_the_message() {
    for version in BUNDLES {
        let mut script = Script::with(version, &[add(5, 2), add(6, 2)]);
        script.answer(0);
        let xid = script.sent[1].1;
        script.answer_last();
        assert_eq!(script.sent(), ["commit 1"]);
        script.refuse_xid(xid, 5, 1);
        script.refuse(0, 17, 13);
        assert_eq!(script.failed(), (Some(1), false), "{version}");
        assert_eq!(script.sent(), ["commit 1"], "the switch has discarded the bundle");
    }
}

#[test]
fn meters_that_a_bundle_cannot_have_surround_it() {
    let changes = [
        Meter(MeterModCommand::Add, 1),
        add(5, 2),
        Meter(MeterModCommand::Delete, 3),
        Group(GroupModCommand::Add, 9),
    ];
    for version in BUNDLES {
        let mut script = Script::with(version, &changes);
        script.answer(0);
        script.refuse(0, 17, 10);
        script.refuse(2, 17, 10);
        script.answer_last();
        let before = ["discard 1", "meter 1", "barrier"];
        assert_eq!(script.sent(), before, "{version}");
        script.answer_last();
        assert_eq!(script.sent(), ["open 2", "2: flow 5", "2: group 9", "close 2"]);
        script.answer_last();
        script.answer_last();
        assert_eq!(script.sent(), ["no meter 3", "barrier"]);
        script.answer_last();
        assert_eq!(script.outcomes, [Outcome::Atomic { outside: 2 }]);
        script.push(&changes[..1]);
        assert_eq!(script.sent(), ["meter 1", "barrier"], "nothing is left for a bundle");
        script.answer_last();
        assert_eq!(script.outcomes[1], Outcome::Ordered);
        // The bundle fails, so the meter goes too.
        script.outcomes.clear();
        script.push(&changes[..2]);
        script.answer_last();
        script.refuse(1, 5, 1);
        script.answer_last();
        assert_eq!(script.sent(), ["discard 3", "no meter 1"]);
        assert_eq!(script.failed(), (Some(1), false));
    }
}

#[test]
fn flows_that_a_bundle_cannot_have_go_without_it() {
    let mut script = Script::with(Version::V1_5, &[add(5, 2)]);
    script.answer(0);
    script.refuse(0, 17, 10);
    script.answer_last();
    assert_eq!(script.sent(), ["discard 1", "flow 5", "barrier"]);
    script.answer_last();
    assert_eq!(script.outcomes, [Outcome::Ordered]);
}

#[test]
fn silent_switch_ends_a_set_at_each_step() {
    let changes = [add(5, 2)];
    for version in BUNDLES {
        let mut script = Script::with(version, &changes);
        script.wait();
        let sent = ["discard 1", "flow 5", "barrier"];
        assert_eq!(script.sent(), sent, "it may have no bundles");
        script.wait();
        assert_eq!(script.outcomes, [Outcome::Unanswered { is_partial: true }]);
        let mut script = Script::with(version, &changes);
        script.answer(0);
        script.wait();
        assert_eq!(script.sent(), ["discard 1"]);
        assert_eq!(script.outcomes, [Outcome::Unanswered { is_partial: false }]);
        let mut script = Script::with(version, &changes);
        script.answer(0);
        script.answer_last();
        script.wait();
        assert_eq!(script.outcomes, [Outcome::Unanswered { is_partial: true }]);
        assert_eq!(script.sent(), ["commit 1"]);
    }
}

#[test]
fn deadline_begins_when_the_step_has_left_the_queue() {
    let mut script = Script::with(Version::V1_0, &[add(5, 0)]);
    assert_eq!(script.changes.waits(), Some(AppSlot::new(1)));
    script.now += PATIENCE / 2;
    script.changes.postpone(script.now);
    script.now += PATIENCE / 2;
    script.changes.expire(script.now);
    script.advance();
    assert_eq!(script.outcomes, []);
    script.wait();
    assert_eq!(script.outcomes, [Outcome::Unanswered { is_partial: true }]);
}

/// The switch may have carried out the commit: nothing is undone, and the app learns that changes may remain.
#[test]
fn error_without_a_refused_commit_is_partial() {
    for version in BUNDLES {
        for answers in [true, false] {
            let meter = Meter(MeterModCommand::Add, 1);
            let mut script = Script::with(version, &[meter, add(5, 2), add(6, 2)]);
            script.answer(0);
            script.refuse(0, 17, 10);
            script.answer_last(); // the close reply, and the meter goes before the bundle
            script.answer_last();
            let xid = script.sent[1].1;
            script.answer_last();
            assert_eq!(script.sent(), ["commit 2"], "{version}");
            script.refuse_xid(xid, 5, 1);
            if answers {
                script.answer(0);
            } else {
                script.wait();
            }
            let (index, is_partial) = script.failed();
            assert!(index.is_some() && is_partial, "{version}");
            assert_eq!(script.sent(), ["commit 2"], "the meter stays");
        }
    }
}

/// The addition of a group may be refused because the app has the group: it is not deleted before the answer is there.
#[test]
fn addition_without_an_answer_is_not_undone() {
    let changes = [Group(GroupModCommand::Add, 3), Group(GroupModCommand::Add, 4)];
    let mut script = Script::with(Version::V1_1, &changes);
    script.refuse_xid(script.sent[0].1, 6, 0);
    script.wait();
    assert_eq!(script.sent(), ["group 3", "group 4", "barrier"]);
    assert!(script.failed().1, "it may be there");
}

#[test]
fn groups_before_an_applied_flow_remain() {
    let changes = [Group(GroupModCommand::Add, 3), add(5, 2), add(6, 2)];
    let mut script = Script::with(Version::V1_1, &changes);
    script.refuse(2, 5, 1);
    script.answer_last();
    assert_eq!(script.sent(), ["group 3", "flow 5", "flow 6", "barrier"], "the flow uses it");
    assert_eq!(script.failed(), (Some(2), true));
}

#[test]
fn bundles_are_tried_again_when_the_refusal_may_pass() {
    // BUNDLE_FAILED/OUT_OF_BUNDLES, BUNDLE_FAILED/BUNDLE_IN_PROGRESS, BAD_REQUEST/IS_SLAVE.
    for (kind, code) in [(17, 5), (17, 15), (1, 10)] {
        let mut script = Script::with(Version::V1_4, &[add(5, 2)]);
        script.refuse(0, kind, code);
        assert_eq!(script.failed(), (None, false), "{kind} {code}");
        script.push(&[add(5, 2)]);
        assert_eq!(script.sent(), ["open 2"]);
    }
    // EPERM, BAD_TYPE.
    for code in [1, 6] {
        let mut script = Script::with(Version::V1_4, &[add(5, 2)]);
        script.refuse(0, 17, code);
        assert_eq!(script.sent(), ["flow 5", "barrier"]);
    }
}

#[test]
fn addition_that_must_not_overlap_stays_behind_deletions() {
    let alone = FlowMod::add(Match::new()).priority(5).flags(openflow::FlowModFlags::CHECK_OVERLAP);
    let script = Script::with(Version::V1_2, &[strict(4), Flow(alone)]);
    assert_eq!(script.sent(), ["flow 4", "flow 5", "barrier"]);
}

#[test]
fn failed_addition_breaks_nothing_and_is_undone() {
    for version in [Version::V1_1, Version::V1_2] {
        let changes = [Group(GroupModCommand::Add, 3), add(5, 2), delete(1)];
        let mut script = Script::with(version, &changes);
        assert_eq!(script.sent(), ["group 3", "flow 5", "barrier"]);
        script.refuse(1, 5, 1);
        script.answer_last();
        assert_eq!(script.sent(), ["no group 3"], "{version}: the deletion was not sent");
        assert_eq!(script.failed(), (Some(1), false));
        // Behind a deletion, the new state is more complete than the old one.
        script.outcomes.clear();
        script.push(&changes);
        script.answer_last();
        script.refuse(0, 5, 4);
        script.answer_last();
        assert_eq!(script.sent(), ["delete 1", "barrier"]);
        assert_eq!(script.failed(), (Some(2), true));
    }
}

#[test]
fn addition_stays_behind_a_change_that_could_touch_it() {
    let order = |version, changes: &[Change]| set(1, 1, version, changes).make_before_break();
    let v1_3 = |changes: &[Change]| order(Version::V1_3, changes);
    assert_eq!(v1_3(&[delete(1), add(5, 2)]), (vec![1], vec![0]), "another cookie");
    assert_eq!(v1_3(&[delete(1), add(5, 1)]), (vec![], vec![0, 1]));
    let all = Flow(FlowMod::delete(Match::new()));
    assert_eq!(v1_3(&[all.clone(), add(5, 1)]), (vec![], vec![0, 1]), "no mask: every cookie");
    assert_eq!(order(Version::V1_0, &[all.clone(), add(5, 2)]), (vec![], vec![0, 1]), "no masks");
    assert_eq!(v1_3(&[add(5, 1), all]), (vec![0], vec![1]));
    assert_eq!(v1_3(&[strict(5), add(5, 1), add(6, 1)]), (vec![], vec![0, 1, 2]));
    assert_eq!(v1_3(&[strict(5), add(6, 1), add(5, 1)]), (vec![1], vec![0, 2]));
    let other_table = FlowMod { table_id: 1, ..FlowMod::delete(Match::new()) };
    assert_eq!(v1_3(&[Flow(other_table), add(5, 1)]), (vec![1], vec![0]));
    let every_table = FlowMod { table_id: 0xff, ..FlowMod::delete(Match::new()) };
    assert_eq!(v1_3(&[Flow(every_table), add(5, 1)]), (vec![], vec![0, 1]));
    let group = |command| Group(command, 3);
    let groups = [group(GroupModCommand::Delete), group(GroupModCommand::Add), add(5, 1)];
    assert_eq!(v1_3(&groups), (vec![], vec![0, 1, 2]), "the flow may need the group");
    let (first, others) = v1_3(&[group(GroupModCommand::Modify), add(5, 1)]);
    assert_eq!((first, others), (vec![1], vec![0]));
}

#[test]
fn waiting_sets_are_bounded_and_keep_their_order() {
    let mut changes = Changes::default();
    let small = |app| set(app, 1, Version::V1_0, &[add(5, 0)]);
    for _ in 0..MOST_SETS {
        assert!(changes.has_room(AppSlot::new(1), 1));
        changes.push(small(1));
    }
    assert!(!changes.has_room(AppSlot::new(1), 1));
    assert!(changes.has_room(AppSlot::new(2), MOST_BYTES), "another app has room of its own");
    changes.push(small(2));
    assert!(
        changes.has_room(AppSlot::new(2), 100) && !changes.has_room(AppSlot::new(2), MOST_BYTES)
    );
    let mut script = Script { changes, ..Script::new(Version::V1_0) };
    for _ in 0..=MOST_SETS {
        script.advance();
        assert_eq!(script.sent(), ["flow 5", "barrier"], "one set at a time");
        script.answer_last();
    }
    assert_eq!((script.outcomes.len(), script.changes.is_idle()), (5, true));
}

#[test]
fn answers_to_others_are_left_to_them() {
    let mut script = Script::with(Version::V1_4, &[add(5, 2)]);
    assert!(!script.changes.reply(99, Kind::BarrierReply, &[]));
    let xid = script.sent[0].1;
    assert!(!script.changes.reply(xid, Kind::BarrierReply, &[5, 21, 0, 8, 0, 0, 0, 0]));
    assert!(!script.changes.reply(xid, Kind::BundleControl, &[5, 33, 0, 8, 0, 0, 0, 0]));
    let error = ErrorMessage { version: Version::V1_4, kind: 1, code: 1, data: &[] };
    assert!(!script.changes.error(xid + 1, &error));
    assert_eq!((script.sent(), script.outcomes.len()), (vec!["open 1"], 0));
}

/// Whatever a switch answers, each set ends, and a set that ends as `Atomic` was committed.
#[test]
fn random_answers_end_every_set() {
    let mut seed = 1_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let all = [
        add(5, 2),
        delete(1),
        Group(GroupModCommand::Add, 4),
        Meter(MeterModCommand::Add, 5),
        Meter(MeterModCommand::Delete, 6),
        add(6, 1),
    ];
    let mut atomic = 0;
    for episode in 0..2000 {
        let mut script = Script::new(BUNDLES[episode % 3]);
        for _ in 0..=random(2) {
            let count = 1 + random(all.len());
            let changes: Vec<Change> = (0..count).map(|_| all[random(6)].clone()).collect();
            script.push(&changes);
        }
        let mut steps = 0;
        while !script.changes.is_idle() {
            steps += 1;
            assert!(steps < 200, "it ends");
            let was = script.outcomes.len();
            let before = script.sent().iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            let number = random(script.sent.len());
            match random(8) {
                0 => script.wait(),
                1 | 2 => {
                    let (_, xid, _) = script.sent[number];
                    let (kind, code) = [(17, 10), (17, 13), (5, 1), (1, 1)][random(4)];
                    let error = ErrorMessage { version: script.version, kind, code, data: &[] };
                    script.changes.error(xid, &error);
                    script.advance();
                }
                _ => script.answer_last(),
            }
            for outcome in &script.outcomes[was..] {
                if matches!(outcome, Outcome::Atomic { .. }) {
                    atomic += 1;
                    let is_end =
                        |it: &String| it.starts_with("commit") || it.starts_with("no meter");
                    assert!(before.iter().any(is_end), "{before:?}");
                }
            }
        }
    }
    assert!(atomic > 100, "{atomic}");
}
