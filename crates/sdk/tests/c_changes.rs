//! Compares the change sets of `rosemary_changes.h` with those of the SDK, in each version of OpenFlow, and their outcomes.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "messages of a test fit")]

mod in_c;

use openflow::{
    Action, ErrorMessage, FlowMod, GroupKind, GroupMod, GroupModCommand, Match, PortNo, Version,
};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rosemary_sdk::{
    App, Applied, Change, CommitId, Committed, Event, Guarantee, Network, NotApplied, Refusal,
    Switch,
};

/// Answers a packet-in with a change set, whose kind its port names. Logs outcomes.
const APP: &str = r#"
#include "rosemary_timers.h"
#include "rosemary_changes.h"

struct app {
    const struct rosemary_host *host;
    struct rosemary_timers timers;
};

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    /* Deletes group 5 in OpenFlow 1.3. */
    uint8_t group[16] = {4, 15, 0, 16, 0, 0, 0, 0, 0, 2};
    struct rosemary_changes set;
    struct rosemary_flow flow = {0};
    int32_t result;

    (void)turn;
    if (!record || record->kind != ROSEMARY_PACKET_IN)
        return 0;
    flow.match.in_port = 3;
    flow.match.eth_type = 0x0800;
    flow.priority = 6;
    flow.output = 2;
    flow.cookie = 0x123456789abcu;
    if (rosemary_changes_begin(&set, app->host, record, record->in_port == 4 ? 64 : 1024) != 0)
        return ROSEMARY_FULL;
    if (record->in_port != 5) {
        rosemary_changes_add_flow(&set, &flow);
        rosemary_changes_delete_flows(&set, &flow.match);
    }
    if (record->in_port == 2)
        rosemary_changes_delete_cookie(&set, 7);
    if (record->in_port == 3) {
        rosemary_put32(group + 12, app->host->first_group + 5);
        rosemary_changes_add(&set, group, sizeof group);
    }
    if (record->in_port == 6) {
        flow.priority = 65535;
        rosemary_changes_add_flow(&set, &flow);
    }
    result = rosemary_commit(&set, 0x01020304);
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "result %d", result);
    return 0;
}

static int32_t on_committed(struct app *app, const struct rosemary_committed *it, struct rosemary_turn *turn) {
    (void)turn;
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "set %u of %u: %u %u %u, %u outside, change %d, %u, error %u %u, %.*s",
                  it->set, (unsigned)it->dpid, it->outcome, it->is_applied, it->is_partial, it->outside, (int)it->index,
                  it->refused, it->error_type, it->error_code, (int)it->text_size, it->text ? it->text : "");
    return 0;
}

static void on_timer(struct app *app, const char *name, struct rosemary_turn *turn) {
    (void)app;
    (void)name;
    (void)turn;
}

ROSEMARY_RECORDS_AND_CHANGES(struct app, on_record, on_committed)
ROSEMARY_EXPORT_WITH_TIMERS("changes", "1", struct app, rosemary_on_record_or_committed, on_timer)
"#;

/// Compiles the app and puts it on a bench.
fn bench(name: &str) -> Bench {
    in_c::bench(&in_c::object(name, APP))
}

/// The same app in Rust, for ports 1 to 3.
struct Model;

impl App for Model {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let Event::PacketIn(packet_in) = event else { return };
        let output = [Action::output(PortNo(2))];
        let match_ = Match::new().in_port(PortNo(3)).eth_type(0x0800);
        let add = FlowMod::add(match_.clone()).priority(6).cookie(0x1234_5678_9abc).apply(&output);
        let mut changes: Vec<Change<'_>> =
            vec![add.into(), FlowMod::delete(match_).priority(0).into()];
        match packet_in.in_port.0 {
            2 => {
                let all = FlowMod::delete(Match::new()).priority(0);
                changes.push(FlowMod { cookie: 7, cookie_mask: u64::MAX >> 16, ..all }.into());
            }
            3 => {
                let (command, kind) = (GroupModCommand::Delete, GroupKind::All);
                let buckets = Vec::new();
                changes.push(GroupMod { command, kind, group_id: 5, buckets }.into());
            }
            _ => {}
        }
        network.commit(packet_in.switch, &changes).unwrap();
    }
}

fn packet_in(version: Version, port: u32) -> AlignedRecord {
    AlignedRecord::packet_in(Bench::switch(7, version), PortNo(port), &[2; 14])
}

#[test]
fn sets_in_c_are_those_of_the_sdk() {
    let (mut bench, mut model) = (bench("changes"), Bench::new::<Model>());
    for version in Version::ALL.iter().copied() {
        for port in 1..=3 {
            if port == 2 && version == Version::V1_0 || port == 3 && version != Version::V1_3 {
                continue;
            }
            assert!(bench.event(packet_in(version, port)).is_empty());
            model.event(packet_in(version, port));
            let (sets, expected) = (bench.commits(), model.commits());
            assert_eq!(bench.log(), ["Info: result 0"], "{version}, port {port}");
            assert_eq!(sets[0].commit, CommitId(0x0102_0304));
            assert_eq!((sets[0].dpid, sets[0].epoch), (expected[0].dpid, expected[0].epoch));
            assert_eq!(sets[0].messages, expected[0].messages, "{version}, port {port}");
        }
    }
}

#[test]
fn impossible_sets_are_not_sent() {
    let mut bench = bench("impossible_changes");
    let mut refused = |version, port, why: &str| {
        bench.event(packet_in(version, port));
        assert!(bench.commits().is_empty());
        let log = bench.log();
        assert!(log[0].contains(why), "{log:?}");
        assert_eq!(log[1..], ["Info: result -2"]);
    };
    refused(Version::V1_0, 2, "cannot delete flows by their cookie");
    refused(Version::V1_3, 4, "does not fit: the set has room for 64 bytes");
    refused(Version::V1_3, 5, "a change set without changes");
    refused(Version::V1_3, 6, "the operator gave this app 0 to 65534");
}

#[test]
fn outcomes_reach_the_callback_in_c() {
    let mut bench = bench("outcomes");
    let switch = Switch { epoch: 1, ..Bench::switch(7, Version::V1_4) };
    let error = ErrorMessage { version: Version::V1_4, kind: 5, code: 1, data: &[] };
    let applied = |guarantee, outside| Ok(Applied { guarantee, outside });
    let remedy = Some("grant it");
    let refused = NotApplied::Refused { index: 4, why: Some(Refusal::Quota), remedy };
    for (outcome, expected) in [
        (applied(Guarantee::Atomic, 3), "0 1 0, 3 outside, change -1, 0, error 0 0, "),
        (applied(Guarantee::Ordered, 0), "1 1 0, 0 outside, change -1, 0, error 0 0, "),
        (Err(refused), "2 0 0, 0 outside, change 4, 13, error 0 0, grant it"),
        (
            Err(NotApplied::Failed { index: Some(8), error, is_partial: true }),
            "3 0 1, 0 outside, change 8, 0, error 5 1, ",
        ),
        (
            Err(NotApplied::Failed { index: None, error, is_partial: false }),
            "3 0 0, 0 outside, change -1, 0, error 5 1, ",
        ),
        (
            Err(NotApplied::Unanswered { is_partial: true }),
            "4 0 1, 0 outside, change -1, 0, error 0 0, ",
        ),
    ] {
        let committed = Committed { switch, commit: CommitId(9), outcome };
        bench.event(AlignedRecord::committed(&committed));
        assert_eq!(bench.log(), [format!("Info: set 9 of 7: {expected}")], "{outcome:?}");
    }
}
