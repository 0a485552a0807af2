//! Compares the actions of `rosemary_nicira.h` with the actions of the codec, and the lists of actions of the SDKs.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "messages of a test fit")]

mod in_c;

use std::collections::BTreeSet;
use std::path::Path;

use openflow::nicira::{
    Bundle, BundleAlgorithm, Controller2, Ct, CtZone, FieldId, HashFields, Multipath,
    MultipathAlgorithm, Nat, NatRange, NiciraAction, Subfield,
};
use openflow::{Action, FlowMod, Match, PortNo, Version};
use rosemary_sdk::testing::{AlignedRecord, Bench};

/// Answers each packet-in with a flow that has every action, after one with fields and a table.
const APP: &str = r#"
#include "rosemary_nicira.h"

struct app {
    const struct rosemary_host *host;
};

static void add_actions(struct rosemary_builder *to) {
    static const uint8_t min[4] = {10, 0, 0, 1}, max[4] = {10, 0, 0, 9};
    static const uint16_t ports[3] = {1, 2, 3}, ids[2] = {0, 1};
    const struct rosemary_nx_bits reg0 = rosemary_nx_bits(ROSEMARY_NXM_REG(0), 0, 32);
    const struct rosemary_nx_bits half = rosemary_nx_bits(ROSEMARY_NXM_REG(1), 16, 16);
    const struct rosemary_nx_field mark = {ROSEMARY_NXM_PKT_MARK, 5, 0xff}, tunnel = {ROSEMARY_NXM_TUN_ID, 7, 0};
    const struct rosemary_nx_ct ct = {1, 1, 5, 2, 21};
    const struct rosemary_nx_nat src = {1, 0, min, max, 1000, 2000};
    uint32_t nested;

    rosemary_nx_resubmit(to, 4);
    rosemary_nx_resubmit_table(to, ROSEMARY_NX_IN_PORT, 10, 0);
    rosemary_nx_resubmit_table(to, 4, ROSEMARY_NX_SAME_TABLE, 1);
    rosemary_nx_set_tunnel(to, 7);
    rosemary_nx_set_tunnel64(to, 0x123456789u);
    rosemary_nx_pop_queue(to);
    rosemary_nx_move(to, rosemary_nx_bits(ROSEMARY_NXM_REG(0), 3, 16), half);
    rosemary_nx_load(to, half, 0xabcd);
    rosemary_nx_load_field(to, mark);
    rosemary_nx_load_field(to, tunnel);
    rosemary_nx_note(to, "note", 4);
    rosemary_nx_multipath(to, reg0, 3, ROSEMARY_NX_L3L4, ROSEMARY_NX_HRW);
    rosemary_nx_bundle(to, ports, 3, ROSEMARY_NX_ETH_SRC, ROSEMARY_NX_BUNDLE_HRW, NULL);
    rosemary_nx_bundle(to, ports, 2, ROSEMARY_NX_L4, ROSEMARY_NX_BUNDLE_ACTIVE_BACKUP, &half);
    rosemary_nx_output_reg(to, reg0, 128);
    rosemary_nx_exit(to);
    rosemary_nx_dec_ttl_controllers(to, ids, 2);
    rosemary_nx_fin_timeout(to, 1, 2);
    rosemary_nx_controller(to, 128, 0, 1);
    rosemary_nx_controller2(to, "data!", 5);
    rosemary_nx_write_metadata(to, 1, 3);
    rosemary_nx_push(to, half);
    rosemary_nx_pop(to, reg0);
    rosemary_nx_conjunction(to, 9, 1, 2);
    nested = rosemary_nx_ct(to, &ct);
    rosemary_nx_nat(to, &src);
    rosemary_nx_load(to, rosemary_nx_bits(ROSEMARY_NXM_CT_MARK, 0, 32), 1);
    rosemary_nx_end(to, nested);
    rosemary_nx_ct_clear(to);
    rosemary_nx_output_trunc(to, 3, 100);
    nested = rosemary_nx_clone(to);
    rosemary_nx_exit(to);
    rosemary_nx_end(to, nested);
    rosemary_nx_check_pkt_larger(to, 1500, ROSEMARY_NXM_REG(0), 3);
    rosemary_nx_delete_field(to, 3);
}

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    static const struct rosemary_nx_field fields[2] = {{ROSEMARY_NXM_REG(0), 5, 0}, {ROSEMARY_NXM_CT_STATE, 0x20, 0x20}};
    struct rosemary_nx_flow open;
    struct rosemary_flow flow = {0};

    (void)turn;
    if (!record || record->kind != ROSEMARY_PACKET_IN)
        return 0;
    flow.match.in_port = 3;
    flow.priority = 6;
    if (rosemary_nx_open_flow(app->host, record, &flow, 0, NULL, 0, &open) != 0)
        return ROSEMARY_FULL;
    add_actions(&open.to);
    rosemary_add_output(&open.to, record->version, 2);
    if (record->version != 1)
        rosemary_nx_dec_nsh_ttl(&open.to);
    if (rosemary_nx_close_flow(app->host, record, &open) != 0)
        return ROSEMARY_FULL;
    if (rosemary_nx_open_flow(app->host, record, &flow, 4, fields, 2, &open) != 0)
        return 0;
    rosemary_nx_exit(&open.to);
    return rosemary_nx_close_flow(app->host, record, &open);
}

ROSEMARY_EXPORT("nicira", "1", struct app, on_record)
"#;

fn bench() -> Bench {
    in_c::bench(&in_c::object("nicira", APP))
}

/// The actions of the app.
fn actions(version: Version) -> Vec<Action> {
    let reg = FieldId::reg;
    let field = |name: &str| FieldId::by_name(name).unwrap();
    let half = Subfield::part(reg(1), 16, 16);
    let ports = |count| (1..=count).map(PortNo).collect();
    let range = NatRange {
        min: [10, 0, 0, 1].into(),
        max: Some([10, 0, 0, 9].into()),
        min_port: Some(1000),
        max_port: Some(2000),
    };
    let nat = Nat { src: true, range: Some(range), ..Nat::default() };
    let mark = NiciraAction::Load { to: field("ct_mark").into(), value: 1 };
    let multipath = Multipath {
        fields: HashFields::SymmetricL3L4,
        basis: 0,
        algorithm: MultipathAlgorithm::Hrw,
        max_link: 3,
        arg: 0,
        to: reg(0).into(),
    };
    let bundle = |fields, algorithm, members, to| {
        NiciraAction::Bundle(Bundle { fields, basis: 0, algorithm, members, to })
    };
    let ct = Ct {
        commit: true,
        force: true,
        zone: CtZone::Number(5),
        table: Some(2),
        alg: 21,
        actions: vec![NiciraAction::Nat(nat).into(), mark.into()],
    };
    let userdata: Box<[u8]> = b"data!"[..].into();
    let all = [
        NiciraAction::Resubmit { in_port: PortNo(4) },
        NiciraAction::ResubmitTable { in_port: PortNo::IN_PORT, table: 10, ct: false },
        NiciraAction::ResubmitTable { in_port: PortNo(4), table: 0xff, ct: true },
        NiciraAction::SetTunnel(7),
        NiciraAction::SetTunnel64(0x1_2345_6789),
        NiciraAction::PopQueue,
        NiciraAction::Move { from: Subfield::part(reg(0), 3, 16), to: half },
        NiciraAction::Load { to: half, value: 0xabcd },
        NiciraAction::LoadField(field("pkt_mark").with_value(5, Some(0xff)).unwrap()),
        NiciraAction::LoadField(field("tun_id").with_value(7, None).unwrap()),
        NiciraAction::Note(b"note\0\0"[..].into()),
        NiciraAction::Multipath(multipath),
        bundle(HashFields::EthSrc, BundleAlgorithm::Hrw, ports(3), None),
        bundle(HashFields::SymmetricL4, BundleAlgorithm::ActiveBackup, ports(2), Some(half)),
        NiciraAction::OutputReg { from: reg(0).into(), max_len: 128 },
        NiciraAction::Exit,
        NiciraAction::DecTtlControllers(vec![0, 1]),
        NiciraAction::FinTimeout { idle: 1, hard: 2 },
        NiciraAction::Controller { max_len: 128, controller_id: 0, reason: 1 },
        NiciraAction::Controller2(Controller2 { userdata, ..Controller2::default() }),
        NiciraAction::WriteMetadata { value: 1, mask: 3 },
        NiciraAction::Push(half),
        NiciraAction::Pop(reg(0).into()),
        NiciraAction::Conjunction { clause: 1, n_clauses: 2, id: 9 },
        NiciraAction::Ct(ct),
        NiciraAction::CtClear,
        NiciraAction::OutputTrunc { port: PortNo(3), max_len: 100 },
        NiciraAction::Clone(vec![NiciraAction::Exit.into()]),
        NiciraAction::CheckPktLarger { pkt_len: 1500, to: Subfield::part(reg(0), 3, 1) },
        NiciraAction::DeleteField(field("tun_metadata3")),
    ];
    let mut all: Vec<Action> = all.into_iter().map(Action::from).collect();
    all.push(Action::output(PortNo(2)));
    if version != Version::V1_0 {
        all.push(NiciraAction::DecNshTtl.into());
    }
    all
}

#[test]
fn actions_in_c_are_those_of_the_codec() {
    let mut bench = bench();
    for version in [Version::V1_0, Version::V1_3] {
        let switch = Bench::switch(7, version);
        let sent = bench.event(AlignedRecord::packet_in(switch, PortNo(3), &[2; 14]));
        let sent: Vec<Vec<u8>> = sent.into_iter().map(|sent| sent.message).collect();
        let encode = |flow_mod: &FlowMod<'_>| {
            let mut message = vec![0; 2048];
            let size = flow_mod.encode(version, 0, &mut message).unwrap();
            message.truncate(size);
            message
        };
        let actions = actions(version);
        let found = FlowMod::decode(&sent[0]).unwrap();
        assert_eq!(found.instructions.apply.iter().collect::<Vec<_>>(), actions);
        let matching = Match::new().in_port(PortNo(3));
        let flow_mod = FlowMod::add(matching.clone()).priority(7).apply(&actions);
        assert_eq!(sent[0], encode(&flow_mod), "{version}");
        if version == Version::V1_0 {
            assert_eq!(
                bench.log(),
                ["Error: OpenFlow 1.0 has no tables and no fields of Open vSwitch"]
            );
            continue;
        }
        let value =
            |name, value, mask| FieldId::by_name(name).unwrap().with_value(value, mask).unwrap();
        let matching = matching.with(&value("reg0", 5, None));
        let matching = matching.with(&value("ct_state", 0x20, Some(0x20)));
        let exit = [NiciraAction::Exit.into()];
        let flow_mod = FlowMod::add(matching).table(4).priority(7).apply(&exit);
        assert_eq!(sent[1..], [encode(&flow_mod)]);
    }
}

/// Actions that only Rust has, for programs that read flows: the kernel refuses `learn`, and the others are those of OpenFlow 1.0, for
/// which the codec has standard actions in later versions.
const ONLY_RUST: [&str; 9] = [
    "learn",
    "set_queue",
    "dec_ttl",
    "push_mpls",
    "pop_mpls",
    "set_mpls_ttl",
    "dec_mpls_ttl",
    "set_mpls_label",
    "set_mpls_tc",
];

#[test]
fn sdks_have_the_same_actions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let name_in = |text: &str| -> String {
        text.chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect()
    };
    let rust = text("crates/openflow/src/nicira/mod.rs");
    let rust = rust.split_once("pub enum NiciraAction {").unwrap().1.split_once("\n}\n").unwrap().0;
    let variants = rust.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|it: char| it.is_ascii_uppercase()));
    let snake = |name: String| {
        name.chars().fold(String::new(), |mut snake, it| {
            if it.is_ascii_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(it.to_ascii_lowercase());
            snake
        })
    };
    let skip: BTreeSet<String> =
        ONLY_RUST.iter().map(ToString::to_string).chain(["group".into()]).collect();
    let rust: BTreeSet<String> = variants.map(|line| snake(name_in(line))).collect();
    assert!(rust.is_superset(&skip), "{skip:?}");
    let rust: BTreeSet<String> = rust.difference(&skip).cloned().collect();

    let header = text("crates/sdk/c/rosemary_nicira.h");
    let functions = header.lines().filter(|line| line.starts_with("static inline"));
    let c = functions.filter_map(|line| Some(name_in(line.split_once("rosemary_nx_")?.1)));
    let tools = ["open_flow", "close_flow", "begin", "end", "packed", "bits"];
    let is_action = |name: &String| !name.starts_with("add_") && !tools.contains(&name.as_str());
    assert_eq!(c.filter(is_action).collect::<BTreeSet<_>>(), rust, "C");

    let stub = text("python/rosemary/_native.pyi");
    let class = stub.split_once("class Nicira:").unwrap().1.split_once("@final").unwrap().0;
    let methods = class.lines().filter_map(|line| line.trim().strip_prefix("def "));
    assert_eq!(methods.map(name_in).collect::<BTreeSet<_>>(), rust, "Python");
}
