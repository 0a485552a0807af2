//! What passes the check, as a switch applies it, never touches another app's flow.
//!
//! Random flow-mods of three apps with adjacent bands, and few values of everything so that they collide, go through
//! [`Rights::check`]; a model of the switch's tables applies those that pass. Of OpenFlow 1.0 there are two models: of
//! Open vSwitch, and of a switch that keeps the stated priority of a flow without wildcards.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::*;
use flow_table::{Effect, FlowTable, Owner};

#[expect(unreachable_pub, dead_code, reason = "it is shared with the crate of the system tests")]
#[path = "../../../../../tests/src/flow_table.rs"]
mod flow_table;

/// The apps' bands, by their numbers from 1 on.
const BANDS: [(u16, u16); 3] = [(100, 199), (200, 299), (65_000, 65_535)];

const CASES: u32 = 96;
const MESSAGES: usize = 60;

/// A flow-mod, in the choices that make it.
#[derive(Debug, Clone)]
struct Choices {
    app: u16,
    command: FlowModCommand,
    priority: u16,
    /// Of OpenFlow 1.0.
    wildcards: u32,
    port: u16,
    ethertype: u16,
    /// Of OpenFlow 1.3: which fields its match has, a bit for each.
    fields: u8,
    table: u8,
    cookie: u64,
    cookie_mask: u64,
    out_port: PortNo,
    flags: FlowModFlags,
}

fn choices() -> impl Strategy<Value = Choices> {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let command = select(vec![Add, Add, Modify, ModifyStrict, Delete, DeleteStrict, DeleteStrict]);
    // One of its own band, or any at an edge.
    let edges = select(vec![0, 1, 99, 100, 199, 200, 299, 300, 65_000, 65_534, 65_535]);
    let priority = (0_u16..2, prop_oneof![3 => Just(None), 1 => edges.prop_map(Some)]);
    // None, all, one bit each, and what has no meaning.
    let wildcards = prop_oneof![
        3 => Just(0),
        1 => Just(0xffc0_0000),
        2 => Just(0x003f_ffff),
        2 => Just(0x0038_20ee),
        2 => (0_u32..32).prop_map(|bit| 1 << bit),
        1 => any::<u32>(),
    ];
    let cookie = prop_oneof![9 => 0_u64..3, 1 => select(vec![1 << 48, 2 << 48, u64::MAX])];
    let foreign_mask = select(vec![1 << 48, 0xffff << 48, u64::MAX]);
    let cookie_mask = prop_oneof![6 => Just(0), 3 => 0_u64..4, 1 => foreign_mask];
    let out_port = select(vec![PortNo::ANY, PortNo::ANY, PortNo(2), PortNo(3)]);
    let flags = prop_oneof![
        6 => Just(FlowModFlags::default()),
        2 => Just(FlowModFlags::CHECK_OVERLAP),
        1 => Just(FlowModFlags::EMERGENCY),
    ];
    let of_match =
        (wildcards, 1_u16..3, select(vec![0x0800, 0x0806, 0x88cc]), any::<u8>(), table());
    let of_cookie = (cookie, cookie_mask, out_port, flags);
    (1_u16..4, command, priority, of_match, of_cookie).prop_map(
        |(app, command, priority, of_match, of_cookie)| {
            let (wildcards, port, ethertype, fields, table) = of_match;
            let (cookie, cookie_mask, out_port, flags) = of_cookie;
            let (above, edge) = priority;
            let priority = edge.unwrap_or(BANDS[usize::from(app) - 1].0 + above);
            Choices {
                app,
                command,
                priority,
                wildcards,
                port,
                ethertype,
                fields,
                table,
                cookie,
                cookie_mask,
                out_port,
                flags,
            }
        },
    )
}

fn table() -> impl Strategy<Value = u8> {
    prop_oneof![8 => Just(0), 2 => Just(1), 1 => Just(254), 2 => Just(255)]
}

impl Choices {
    fn encode(&self, version: Version) -> Vec<u8> {
        let old = version == Version::V1_0;
        let flow_mod = FlowMod {
            command: self.command,
            priority: self.priority,
            cookie: self.cookie,
            cookie_mask: if old { 0 } else { self.cookie_mask },
            table_id: if old { 0 } else { self.table },
            out_port: self.out_port,
            flags: if old || self.flags != FlowModFlags::EMERGENCY {
                self.flags
            } else {
                FlowModFlags::RESET_COUNTS
            },
            ..FlowMod::add(if old { Match::new() } else { self.match_1_3() }).apply(&OUT)
        };
        let mut message = bytes(|out| flow_mod.encode(version, 0, out));
        if old {
            message[8..12].copy_from_slice(&self.wildcards.to_be_bytes());
            message[12..14].copy_from_slice(&self.port.to_be_bytes());
            message[30..32].copy_from_slice(&self.ethertype.to_be_bytes());
            message[33] = 6; // protocol
            message[36..48].fill(u8::from(self.port == 1)); // addresses and ports of TCP
        }
        message
    }

    fn match_1_3(&self) -> Match {
        let has = |bit: u8| self.fields >> bit & 1 != 0;
        let mut fields = Match::new();
        if has(0) {
            fields = fields.in_port(PortNo(self.port.into()));
        }
        if has(1) {
            fields = fields.eth_type(self.ethertype);
        }
        if has(2) {
            let mask = if has(3) { u64::MAX } else { 1 };
            let value = u64::from(self.port) & mask;
            fields = fields.with(&Field::Metadata(openflow::Masked {
                value,
                mask: (!has(3)).then_some(mask),
            }));
        }
        fields
    }
}

fn run(version: Version, exact_is_highest: bool) {
    let counts = RefCell::new(BTreeMap::<&str, u32>::new());
    let count = |what| *counts.borrow_mut().entry(what).or_default() += 1;
    let apply = |(messages, granted): (Vec<Choices>, [bool; 3])| -> Result<(), TestCaseError> {
        let apps = [0, 1, 2].map(|place: usize| {
            let (lowest, highest) = BANDS[place];
            let mut capabilities = Grant::unscoped(&[Capability::FlowWrite]);
            let any = granted[place].then(|| Capability::FlowWriteAny.into());
            capabilities.extend(any);
            let number = 1 + u16::try_from(place).expect("three");
            let band = Band { lowest, highest };
            let policy = Policy { band, capabilities, ..Policy::default() };
            let owner = Owner { app: number, band: BANDS[place], any: granted[place] };
            (Rights::of(AppId(number), &policy, None), owner)
        });
        let mut table = FlowTable::new(version, exact_is_highest);
        for choices in &messages {
            let (rights, owner) = &apps[usize::from(choices.app) - 1];
            let mut message = choices.encode(version);
            let Ok(checked) = rights.check(version, &message) else {
                count("refused by us");
                continue;
            };
            checked.mark(rights.app, &mut message);
            let Ok(effects) = table.flow_mod(choices.app, &message) else {
                count("refused by the switch");
                continue;
            };
            for effect in &effects {
                count(match effect {
                    Effect::Added(_) => "added",
                    Effect::Changed(..) => "changed",
                    Effect::Deleted(_) => "deleted",
                    Effect::Group(..) | Effect::Meter(..) => "touched what is no flow",
                });
                owner.may(effect).map_err(TestCaseError::fail)?;
            }
        }
        Ok(())
    };
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    // The first app has no grant, the others may have.
    let granted = any::<[bool; 2]>().prop_map(|[two, three]| [false, two, three]);
    let messages = (vec(choices(), MESSAGES), granted);
    if let Err(error) = TestRunner::new(config).run(&messages, apply) {
        panic!("{error}");
    }
    for what in ["refused by us", "refused by the switch", "added", "changed", "deleted"] {
        assert!(counts.borrow().get(what).is_some_and(|count| *count > CASES / 4), "{counts:?}");
    }
}

#[test]
fn admitted_flow_mods_of_1_0_touch_own_flows_in_open_vswitch() {
    run(Version::V1_0, true);
}

#[test]
fn admitted_flow_mods_of_1_0_touch_own_flows_by_stated_priority() {
    run(Version::V1_0, false);
}

#[test]
fn admitted_flow_mods_of_1_3_touch_own_flows() {
    run(Version::V1_3, true);
}
