//! The actions and match fields that are compared, each as `ovs-ofctl` reads it and as this crate has it.

use rosemary_openflow::nicira::{
    Bundle, BundleAlgorithm, Controller2, Ct, CtZone, FieldId, HashFields, Learn, LearnDestination,
    LearnSource, LearnSpec, Multipath, MultipathAlgorithm, Nat, NatRange, SAME_TABLE, Subfield,
};
use rosemary_openflow::{Action, Field, Match, NiciraAction, PortNo, Version};

/// An action.
pub(crate) struct Case {
    pub(crate) text: &'static str,
    pub(crate) action: Action,
    pub(crate) versions: &'static [Version],
}

impl Case {
    /// The ethertype of packets that have the fields of the action.
    fn eth_type(&self) -> u16 {
        match self.text {
            text if text.contains("NSH") => 0x894f,
            text if text.contains("mpls") && !text.contains("push") => 0x8847,
            text if text.contains("fe80") => 0x86dd,
            _ => 0x0800,
        }
    }

    /// Whether the action is for packets that were tracked.
    fn is_tracked(&self) -> bool {
        self.text.ends_with(",ct)")
    }

    /// Whether the action is for packets of TCP.
    fn is_tcp(&self) -> bool {
        self.text.contains("alg=") || self.text.starts_with("fin_timeout")
    }

    /// A match on packets that have the fields of the action.
    pub(crate) fn matching(&self) -> Match {
        self.of_fields(["OXM_OF_ETH_TYPE", "OXM_OF_IP_PROTO"])
    }

    /// The same with the fields of OpenFlow 1.0 that Nicira's flow-mod has.
    pub(crate) fn nxm(&self) -> Match {
        self.of_fields(["NXM_OF_ETH_TYPE", "NXM_OF_IP_PROTO"])
    }

    fn of_fields(&self, [eth_type, ip_proto]: [&str; 2]) -> Match {
        let with =
            |name: &str, value: u16, mask| field(name).with_value(value.into(), mask).unwrap();
        let mut matching = Match::new().with(&with(eth_type, self.eth_type(), None));
        if self.is_tcp() {
            matching.set(&with(ip_proto, 6, None));
        }
        if self.is_tracked() {
            matching.set(&with("ct_state", 0x22, Some(0x22)));
        }
        matching
    }

    /// The same as text, with the action.
    pub(crate) fn flow(&self) -> String {
        let tracked = if self.is_tracked() { "ct_state=+trk+est," } else { "" };
        let tcp = if self.is_tcp() { "nw_proto=6," } else { "" };
        format!("{tracked}dl_type={},{tcp}actions={}", self.eth_type(), self.text)
    }
}

const ALL: &[Version] = &[Version::V1_0, Version::V1_3, Version::V1_4, Version::V1_5];
const UP_TO_1_4: &[Version] = &[Version::V1_0, Version::V1_3, Version::V1_4];
const ONLY_1_0: &[Version] = &[Version::V1_0];

pub(crate) fn field(name: &str) -> FieldId {
    FieldId::by_name(name).unwrap()
}

fn part(name: &str, offset: u16, n_bits: u16) -> Subfield {
    Subfield::part(field(name), offset, n_bits)
}

fn whole(name: &str) -> Subfield {
    Subfield::whole(field(name))
}

/// Returns all cases.
pub(crate) fn cases() -> Vec<Case> {
    [registers(), lookup(), plain(), tracking(), spread(), controller(), learn()].concat_all()
}

trait ConcatAll {
    fn concat_all(self) -> Vec<Case>;
}

impl<const N: usize> ConcatAll for [Vec<Case>; N] {
    fn concat_all(self) -> Vec<Case> {
        self.into_iter().flatten().collect()
    }
}

fn case(versions: &'static [Version], text: &'static str, action: NiciraAction) -> Case {
    Case { text, action: action.into(), versions }
}

fn registers() -> Vec<Case> {
    use NiciraAction::{CheckPktLarger, DeleteField, Load, LoadField, Move, OutputReg, Pop, Push};
    let value = |name: &str, value, mask| field(name).with_value(value, mask).unwrap();
    vec![
        case(UP_TO_1_4, "load:0x5->NXM_NX_REG0[]", Load { to: whole("reg0"), value: 5 }),
        case(
            UP_TO_1_4,
            "load:0xf->NXM_NX_REG15[28..31]",
            Load { to: part("reg15", 28, 4), value: 15 },
        ),
        case(UP_TO_1_4, "load:1->NXM_NX_REG2[3]", Load { to: part("reg2", 3, 1), value: 1 }),
        case(
            UP_TO_1_4,
            "load:0xffffffffffffffff->NXM_NX_XXREG1[64..127]",
            Load { to: part("xxreg1", 64, 64), value: u64::MAX },
        ),
        case(UP_TO_1_4, "load:7->NXM_NX_TUN_ID[]", Load { to: whole("tun_id"), value: 7 }),
        case(UP_TO_1_4, "load:0->NXM_OF_IN_PORT[]", Load { to: whole("NXM_OF_IN_PORT"), value: 0 }),
        case(UP_TO_1_4, "load:2->OXM_OF_PKT_REG1[]", Load { to: whole("xreg1"), value: 2 }),
        case(
            UP_TO_1_4,
            "move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31]",
            Move { from: part("reg0", 0, 16), to: part("reg1", 16, 16) },
        ),
        case(
            UP_TO_1_4,
            "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
            Move { from: whole("NXM_OF_ETH_SRC"), to: whole("NXM_OF_ETH_DST") },
        ),
        case(
            UP_TO_1_4,
            "move:NXOXM_NSH_C1[]->NXM_NX_REG0[]",
            Move { from: whole("nsh_c1"), to: whole("reg0") },
        ),
        case(ALL, "push:NXM_NX_REG2[1..5]", Push(part("reg2", 1, 5))),
        case(ALL, "pop:NXM_NX_REG2[1..5]", Pop(part("reg2", 1, 5))),
        case(ALL, "push:NXOXM_NSH_C1[]", Push(whole("nsh_c1"))),
        case(
            ALL,
            "output:NXM_NX_REG1[5..10]",
            OutputReg { from: part("reg1", 5, 6), max_len: 0xffff },
        ),
        case(
            ALL,
            "check_pkt_larger(100)->NXM_NX_REG0[0]",
            CheckPktLarger { pkt_len: 100, to: part("reg0", 0, 1) },
        ),
        case(ALL, "delete_field:tun_metadata0", DeleteField(field("tun_metadata0"))),
        // `ovs-ofctl` has no text for this form, so it is only printed.
        case(UP_TO_1_4, "", LoadField(value("reg0", 5, Some(0xff)))),
    ]
}

fn lookup() -> Vec<Case> {
    const IN_PORT: u32 = PortNo::IN_PORT.0;
    use NiciraAction::{
        Conjunction, Exit, FinTimeout, Note, Resubmit, ResubmitTable, WriteMetadata,
    };
    let resubmit = |in_port, table, ct| ResubmitTable { in_port: PortNo(in_port), table, ct };
    vec![
        // `ovs-ofctl` writes the form with a table, so the other one is only printed.
        case(ALL, "", Resubmit { in_port: PortNo(5) }),
        case(ALL, "resubmit:5", resubmit(5, SAME_TABLE, false)),
        case(ALL, "resubmit:LOCAL", resubmit(PortNo::LOCAL.0, SAME_TABLE, false)),
        case(ALL, "resubmit(5,2)", resubmit(5, 2, false)),
        case(ALL, "resubmit(,10)", resubmit(IN_PORT, 10, false)),
        case(ALL, "resubmit(,10,ct)", resubmit(IN_PORT, 10, true)),
        case(ALL, "note:01.02.03.04.05.06", Note([1, 2, 3, 4, 5, 6].into())),
        case(
            ALL,
            "note:01.02.03.04.05.06.07",
            Note([1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0].into()),
        ),
        case(ALL, "exit", Exit),
        case(ALL, "fin_timeout(idle_timeout=5,hard_timeout=10)", FinTimeout { idle: 5, hard: 10 }),
        case(
            ONLY_1_0,
            "write_metadata:0x1234/0xffff",
            WriteMetadata { value: 0x1234, mask: 0xffff },
        ),
        case(ALL, "conjunction(99,2/3)", Conjunction { clause: 1, n_clauses: 3, id: 99 }),
    ]
}

fn plain() -> Vec<Case> {
    use NiciraAction::{
        DecMplsTtl, DecTtl, DecTtlControllers, Group, OutputTrunc, PopMpls, PopQueue, PushMpls,
        SetMplsLabel, SetMplsTc, SetMplsTtl, SetQueue, SetTunnel, SetTunnel64,
    };
    vec![
        case(ONLY_1_0, "set_tunnel:0x7", SetTunnel(7)),
        case(ONLY_1_0, "set_tunnel64:0x123456789", SetTunnel64(0x1_2345_6789)),
        case(ONLY_1_0, "set_queue:3", SetQueue(3)),
        case(ALL, "pop_queue", PopQueue),
        case(ONLY_1_0, "dec_ttl", DecTtl),
        case(ALL, "dec_ttl(1,2,3,4,5)", DecTtlControllers(vec![1, 2, 3, 4, 5])),
        case(ONLY_1_0, "push_mpls:0x8847", PushMpls(0x8847)),
        case(ONLY_1_0, "pop_mpls:0x0800", PopMpls(0x0800)),
        case(ONLY_1_0, "set_mpls_ttl(9)", SetMplsTtl(9)),
        case(ONLY_1_0, "dec_mpls_ttl", DecMplsTtl),
        case(ONLY_1_0, "set_mpls_label(99)", SetMplsLabel(99)),
        case(ONLY_1_0, "set_mpls_tc(5)", SetMplsTc(5)),
        case(ONLY_1_0, "group:4", Group(4)),
        case(ALL, "output(port=1,max_len=100)", OutputTrunc { port: PortNo(1), max_len: 100 }),
    ]
}

fn tracking() -> Vec<Case> {
    use NiciraAction::{Clone, CtClear};
    let ct = |ct: Ct| NiciraAction::Ct(ct);
    let nat = |nat: Nat| Action::from(NiciraAction::Nat(nat));
    let commit = || Ct { commit: true, ..Ct::default() };
    let range = |min: &str, max: Option<&str>, min_port, max_port| NatRange {
        min: min.parse().unwrap(),
        max: max.map(|max| max.parse().unwrap()),
        min_port,
        max_port,
    };
    let src = |range| Nat { src: true, range: Some(range), ..Nat::default() };
    let with = |action| Ct { actions: vec![action], ..commit() };
    let mark = Action::from(NiciraAction::Load { to: whole("ct_mark"), value: 1 });
    let reg = |value| Action::from(NiciraAction::Load { to: whole("reg0"), value });
    vec![
        case(ALL, "ct_clear", CtClear),
        case(ALL, "ct()", ct(Ct::default())),
        case(ALL, "ct(commit)", ct(commit())),
        case(
            ALL,
            "ct(commit,force,table=7,zone=5)",
            ct(Ct { force: true, table: Some(7), zone: CtZone::Number(5), ..commit() }),
        ),
        case(
            ALL,
            "ct(table=1,zone=NXM_NX_REG0[0..15])",
            ct(Ct { table: Some(1), zone: CtZone::Field(part("reg0", 0, 16)), ..Ct::default() }),
        ),
        case(ALL, "ct(commit,alg=ftp)", ct(Ct { alg: 21, ..commit() })),
        case(UP_TO_1_4, "ct(commit,exec(load:0x1->NXM_NX_CT_MARK[]))", ct(with(mark))),
        case(
            ALL,
            "ct(table=2,nat)",
            ct(Ct { table: Some(2), actions: vec![nat(Nat::default())], ..Ct::default() }),
        ),
        case(ALL, "ct(commit,nat(src))", ct(with(nat(Nat { src: true, ..Nat::default() })))),
        case(
            ALL,
            "ct(commit,nat(src=10.0.0.1))",
            ct(with(nat(src(range("10.0.0.1", None, None, None))))),
        ),
        case(
            ALL,
            "ct(commit,nat(src=10.0.0.1-10.0.0.9:1000-2000,random))",
            ct(with(nat(Nat {
                random: true,
                ..src(range("10.0.0.1", Some("10.0.0.9"), Some(1000), Some(2000)))
            }))),
        ),
        case(
            ALL,
            "ct(commit,nat(dst=10.0.0.1:80,persistent,hash))",
            ct(with(nat(Nat {
                dst: true,
                persistent: true,
                hash: true,
                range: Some(range("10.0.0.1", None, Some(80), None)),
                ..Nat::default()
            }))),
        ),
        case(
            ALL,
            "ct(commit,nat(src=[fe80::1]-[fe80::9]:1-2))",
            ct(with(nat(src(range("fe80::1", Some("fe80::9"), Some(1), Some(2)))))),
        ),
        case(ALL, "clone(output:3)", Clone(vec![Action::Output { port: PortNo(3), max_len: 0 }])),
        case(
            UP_TO_1_4,
            "clone(load:0x1->NXM_NX_REG0[],clone(load:0x2->NXM_NX_REG0[]))",
            Clone(vec![reg(1), Clone(vec![reg(2)]).into()]),
        ),
    ]
}

fn spread() -> Vec<Case> {
    let multipath = |fields, algorithm| {
        NiciraAction::Multipath(Multipath {
            fields,
            basis: 50,
            algorithm,
            max_link: 11,
            arg: 3,
            to: part("reg0", 2, 5),
        })
    };
    let bundle = |algorithm, to| {
        let members = vec![PortNo(4), PortNo(8), PortNo(9)];
        NiciraAction::Bundle(Bundle {
            fields: HashFields::EthSrc,
            basis: 7,
            algorithm,
            members,
            to,
        })
    };
    vec![
        case(
            ALL,
            "multipath(symmetric_l4,50,modulo_n,12,3,NXM_NX_REG0[2..6])",
            multipath(HashFields::SymmetricL4, MultipathAlgorithm::ModuloN),
        ),
        case(
            ALL,
            "multipath(symmetric_l3l4+udp,50,iter_hash,12,3,NXM_NX_REG0[2..6])",
            multipath(HashFields::SymmetricL3L4Udp, MultipathAlgorithm::IterHash),
        ),
        case(ALL, "bundle(eth_src,7,hrw,ofport,members:4,8,9)", bundle(BundleAlgorithm::Hrw, None)),
        case(
            ALL,
            "bundle_load(eth_src,7,active_backup,ofport,NXM_NX_REG0[16..31],members:4,8,9)",
            bundle(BundleAlgorithm::ActiveBackup, Some(part("reg0", 16, 16))),
        ),
    ]
}

fn controller() -> Vec<Case> {
    let all = Controller2 {
        max_len: 77,
        controller_id: 5,
        reason: 0,
        userdata: [1, 2, 3].into(),
        pause: true,
        meter: Some(9),
    };
    vec![
        case(
            ALL,
            "controller(reason=no_match,max_len=128,id=5)",
            NiciraAction::Controller { max_len: 128, controller_id: 5, reason: 0 },
        ),
        case(
            ALL,
            "controller(userdata=01.02.03.04.05,pause)",
            NiciraAction::Controller2(Controller2 {
                userdata: [1, 2, 3, 4, 5].into(),
                pause: true,
                ..Controller2::default()
            }),
        ),
        case(
            ALL,
            "controller(reason=no_match,max_len=77,id=5,userdata=01.02.03,pause,meter_id=9)",
            NiciraAction::Controller2(all),
        ),
    ]
}

fn learn() -> Vec<Case> {
    let of = |name: &str| LearnSource::Field { field: field(name), offset: 0 };
    let matches = |name: &str| LearnDestination::Match { field: field(name), offset: 0 };
    let loads = |name: &str| LearnDestination::Load { field: field(name), offset: 0 };
    let spec = |n_bits, from, to| LearnSpec { n_bits, from, to };
    let learn = |learn: Learn| NiciraAction::Learn(Box::new(learn));
    let specs = vec![
        spec(12, of("vlan_tci"), matches("vlan_tci")),
        spec(48, of("NXM_OF_ETH_SRC"), matches("NXM_OF_ETH_DST")),
        spec(16, LearnSource::Number(0x800), matches("NXM_OF_ETH_TYPE")),
        spec(12, LearnSource::Number(0), loads("vlan_tci")),
        spec(16, of("NXM_OF_IN_PORT"), LearnDestination::Output),
    ];
    vec![
        case(
            ALL,
            "learn(table=1,idle_timeout=10,hard_timeout=20,fin_idle_timeout=5,fin_hard_timeout=9,\
             priority=10,send_flow_rem,delete_learned,cookie=0xfedcba9876543210,\
             NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],NXM_OF_ETH_TYPE[]=0x800,\
             load:0->NXM_OF_VLAN_TCI[0..11],output:NXM_OF_IN_PORT[])",
            learn(Learn {
                idle_timeout: 10,
                hard_timeout: 20,
                priority: 10,
                cookie: 0xfedc_ba98_7654_3210,
                table: 1,
                fin_idle_timeout: 5,
                fin_hard_timeout: 9,
                send_flow_rem: true,
                delete_learned: true,
                specs: specs.clone(),
                ..Learn::default()
            }),
        ),
        case(
            ALL,
            "learn(table=2,limit=4,result_dst=NXM_NX_REG0[3],NXM_OF_VLAN_TCI[0..11])",
            learn(Learn {
                priority: 0x8000,
                table: 2,
                limit: 4,
                result: Some(part("reg0", 3, 1)),
                specs: specs[..1].to_vec(),
                ..Learn::default()
            }),
        ),
    ]
}

/// A match field.
pub(crate) struct FieldCase {
    /// With its prerequisites, as `ovs-ofctl` reads it.
    pub(crate) text: &'static str,
    name: &'static str,
    value: u128,
    mask: Option<u128>,
}

impl FieldCase {
    pub(crate) fn field(&self) -> Field {
        field(self.name).with_value(self.value, self.mask).unwrap()
    }
}

/// Returns match fields.
pub(crate) fn fields() -> Vec<FieldCase> {
    let case = |text, name, value, mask| FieldCase { text, name, value, mask };
    vec![
        case("reg0=5", "reg0", 5, None),
        case("reg15=0x10/0xf0", "reg15", 0x10, Some(0xf0)),
        case("pkt_mark=7/0xff", "pkt_mark", 7, Some(0xff)),
        case("conj_id=9", "conj_id", 9, None),
        case("tun_src=10.0.0.0/8", "tun_src", 0x0a00_0000, Some(0xff00_0000)),
        case("tun_gbp_id=3", "tun_gbp_id", 3, None),
        case("ct_state=+trk+est", "ct_state", 0x22, Some(0x22)),
        case("ct_zone=4", "ct_zone", 4, None),
        case("ct_mark=0x1/0xff", "ct_mark", 1, Some(0xff)),
        case("ct_label=0x1", "ct_label", 1, None),
        case("ct_state=+trk+est,ip,ct_nw_src=10.0.0.1", "ct_nw_src", 0x0a00_0001, None),
        case("ip,nw_ttl=5", "nw_ttl", 5, None),
        case("ip,ip_frag=later", "ip_frag", 3, None),
    ]
}
