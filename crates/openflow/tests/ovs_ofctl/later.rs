//! Messages of OpenFlow 1.1, 1.2, 1.4 and 1.5.

use super::{MAC, reads};
use rosemary_openflow::oxm::OPENFLOW_BASIC;
use rosemary_openflow::v1_3::table::OxmId;
use rosemary_openflow::{
    Action, AggregateStats, AsyncConfig, Bucket, BundleAdd, BundleCommand, BundleControl,
    BundleFlags, ControllerRole, CopiedField, Dpid, EncodeError, Eviction, Features, Field,
    FlowMod, FlowModFlags, FlowMonitorFlags, FlowMonitorRequest, FlowRemoved, FlowRemovedReason,
    FlowStats, FlowStatsRequest, GroupKind, GroupMod, GroupModCommand, Instructions, Masked, Match,
    MultipartReply, MultipartRequest, PacketOut, PortConfig, PortDesc, PortFeatures, PortMod,
    PortName, PortNo, Queue, QueueConfig, ReplyBody, RequestForward, Role, RoleReason, RoleStatus,
    TableMod, TableReason, TableStatus, Vacancy, Version, append,
};
use std::time::Duration;

fn tcp() -> Match {
    Match::new()
        .in_port(PortNo(1))
        .eth_src(MAC)
        .vlan_vid(7)
        .vlan_pcp(3)
        .eth_type(0x800)
        .ip_proto(6)
        .ip_dscp(46)
        .ipv4_src([10, 0, 0, 1].into())
        .with(&Field::Ipv4Dst(Masked::new([10, 1, 0, 0].into(), [255, 255, 0, 0].into())))
        .tcp_dst(80)
}

#[test]
fn tcp_flow_mod_prints_alike_in_every_version() {
    let actions = [
        Action::SetField(Field::EthDst(MAC.into())),
        Action::PopVlan,
        Action::SetQueue(4),
        Action::output(PortNo(2)),
        Action::Output { port: PortNo::CONTROLLER, max_len: 128 },
    ];
    let mut flow_mod = FlowMod::add(tcp())
        .table(3)
        .priority(9)
        .idle_timeout(60)
        .flags(FlowModFlags::SEND_FLOW_REM)
        .apply(&actions)
        .goto_table(4);
    flow_mod.instructions.metadata = Some((0x30, 0xf0));
    let said = "ADD table:3 priority=9,tcp,in_port=1,dl_vlan=7,dl_vlan_pcp=3,\
                dl_src=02:00:00:00:00:01,nw_src=10.0.0.1,nw_dst=10.1.0.0/16,nw_tos=184,tp_dst=80 \
                idle:60";
    let rest = "pop_vlan,set_queue:4,output:2,CONTROLLER:128,write_metadata:0x30/0xf0,goto_table:4";
    reads!(
        &flow_mod,
        Version::V1_1,
        format!(
            "OFPT_FLOW_MOD (OF1.1) (xid=0x1): {said} send_flow_rem \
             actions=mod_dl_dst:02:00:00:00:00:01,{rest}"
        )
    );
    let set = "set_field:02:00:00:00:00:01->eth_dst";
    reads!(
        &flow_mod,
        Version::V1_2,
        format!("OFPT_FLOW_MOD (OF1.2) (xid=0x1): {said} send_flow_rem actions={set},{rest}")
    );
    let flow_mod = flow_mod.importance(7);
    for (version, name) in [(Version::V1_4, "1.4"), (Version::V1_5, "1.5")] {
        reads!(
            &flow_mod,
            version,
            format!(
                "OFPT_FLOW_MOD (OF{name}) (xid=0x1): {said} importance:7 send_flow_rem \
                 actions={set},{rest}"
            )
        );
    }
}

#[test]
fn actions_of_1_5_print_as_intended() {
    let field = |field, length| OxmId {
        class: OPENFLOW_BASIC,
        field,
        has_mask: false,
        length,
        experimenter: None,
    };
    let copy = Action::CopyField {
        n_bits: 32,
        from: CopiedField { field: field(11, 4), offset: 0 },
        to: CopiedField { field: field(12, 4), offset: 0 },
    };
    let set = Field::Ipv4Dst(Masked::new([10, 1, 0, 0].into(), [255, 255, 0, 0].into()));
    let actions = [copy, Action::SetField(set), Action::Meter(5), Action::output(PortNo(2))];
    let match_ = Match::new().eth_type(0x800);
    reads!(
        FlowMod::add(match_).apply(&actions),
        Version::V1_5,
        "OFPT_FLOW_MOD (OF1.5) (xid=0x1): ADD ip \
         actions=move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],set_field:10.1.0.0/16->ip_dst,meter:5,\
         output:2"
    );
}

#[test]
fn packet_outs_print_alike_in_every_version() {
    let flood = [Action::output(PortNo::FLOOD)];
    let packet_out = PacketOut::buffered(PortNo(3), &flood, 0x100);
    for (version, name) in [
        (Version::V1_1, "1.1"),
        (Version::V1_2, "1.2"),
        (Version::V1_4, "1.4"),
        (Version::V1_5, "1.5"),
    ] {
        reads!(
            packet_out,
            version,
            format!(
                "OFPT_PACKET_OUT (OF{name}) (xid=0x1): in_port=3 actions=FLOOD buffer=0x00000100"
            )
        );
    }
}

#[test]
fn groups_of_1_1_and_1_5_print_as_intended() {
    let bucket = |port| Bucket { weight: 3, ..Bucket::new([Action::output(PortNo(port))]) };
    let group_mod =
        |command, buckets| GroupMod { command, kind: GroupKind::Select, group_id: 7, buckets };
    reads!(
        group_mod(GroupModCommand::Add, vec![bucket(1), bucket(2)]),
        Version::V1_1,
        "OFPT_GROUP_MOD (OF1.1) (xid=0x1): ADD \
         group_id=7,type=select,bucket=weight:3,actions=output:1,bucket=weight:3,actions=output:2"
    );
    let numbered = |bucket_id| Bucket { bucket_id: Some(bucket_id), ..bucket(bucket_id) };
    reads!(
        group_mod(GroupModCommand::InsertBucket(Bucket::LAST), vec![numbered(1), numbered(2)]),
        Version::V1_5,
        "OFPT_GROUP_MOD (OF1.5) (xid=0x1): INSERT_BUCKET command_bucket_id:last,group_id=7,\
         bucket=bucket_id:1,weight:3,actions=output:1,bucket=bucket_id:2,weight:3,\
         actions=output:2"
    );
    reads!(
        group_mod(GroupModCommand::RemoveBucket(9), Vec::new()),
        Version::V1_5,
        "OFPT_GROUP_MOD (OF1.5) (xid=0x1): REMOVE_BUCKET command_bucket_id:9,group_id=7"
    );
}

fn port(port_no: u32) -> PortDesc {
    PortDesc {
        port_no: PortNo(port_no),
        hw_addr: MAC,
        name: PortName::new("eth1"),
        config: PortConfig(1),
        state: rosemary_openflow::PortState(4),
        curr: PortFeatures(1 << 6),
        advertised: PortFeatures(0),
        supported: PortFeatures(1 << 6),
        peer: PortFeatures(0),
        curr_speed: 10_000_000,
        max_speed: 20_000_000,
    }
}

#[test]
fn switches_and_ports_print_as_intended() {
    let features = |ports| Features {
        dpid: Dpid(0x1234),
        n_buffers: 256,
        n_tables: 4,
        auxiliary_id: 0,
        capabilities: rosemary_openflow::Capabilities(1),
        actions: 0,
        ports,
    };
    let said = "dpid:0000000000001234 n_tables:4, n_buffers:256";
    let eth1 = "1(eth1): addr:02:00:00:00:00:01 config: PORT_DOWN state: LIVE current: 10GB-FD \
                supported: 10GB-FD speed: 10000 Mbps now, 20000 Mbps max";
    for (version, name) in [(Version::V1_1, "1.1"), (Version::V1_2, "1.2")] {
        reads!(
            features(vec![port(1)]),
            version,
            format!(
                "OFPT_FEATURES_REPLY (OF{name}) (xid=0x1): {said} capabilities: FLOW_STATS {eth1}"
            )
        );
    }
    for (version, name) in [(Version::V1_4, "1.4"), (Version::V1_5, "1.5")] {
        let body = ReplyBody::PortDesc(vec![port(1)]);
        reads!(
            MultipartReply { more: false, body },
            version,
            format!("OFPST_PORT_DESC reply (OF{name}) (xid=0x1): {eth1}")
        );
        reads!(
            PortMod {
                port_no: PortNo(3),
                hw_addr: MAC,
                config: PortConfig(1),
                mask: PortConfig(1),
                advertise: PortFeatures(1 << 6),
            },
            version,
            format!(
                "OFPT_PORT_MOD (OF{name}) (xid=0x1): port: 3: addr:02:00:00:00:00:01 config: \
                 PORT_DOWN mask: PORT_DOWN advertise: 10GB-FD"
            )
        );
    }
    reads!(
        MultipartRequest::OnePortDesc(PortNo(3)),
        Version::V1_5,
        "OFPST_PORT_DESC request (OF1.5) (xid=0x1): port=3"
    );
}

#[test]
fn queues_print_as_intended() {
    let queue = Queue { queue_id: 5, port: PortNo(3), min_rate: Some(100), max_rate: Some(500) };
    for (version, name) in [(Version::V1_1, "1.1"), (Version::V1_2, "1.2")] {
        let max_rate = queue.max_rate.filter(|_| version == Version::V1_2);
        let config = QueueConfig { port: PortNo(3), queues: vec![Queue { max_rate, ..queue }] };
        let most = if max_rate.is_some() { " max_rate:50.0%" } else { "" };
        reads!(
            config,
            version,
            format!(
                "OFPT_QUEUE_GET_CONFIG_REPLY (OF{name}) (xid=0x1): port=3 queue 5: \
                 min_rate:10.0%{most}"
            )
        );
    }
    let body = ReplyBody::QueueDesc(vec![queue]);
    reads!(
        MultipartReply { more: false, body },
        Version::V1_4,
        "OFPST_QUEUE_DESC reply (OF1.4) (xid=0x1): port=3 queue 5: min_rate:10.0% max_rate:50.0%"
    );
    reads!(
        MultipartRequest::QueueDesc { port_no: PortNo(3), queue_id: Some(5) },
        Version::V1_4,
        "OFPST_QUEUE_DESC request (OF1.4) (xid=0x1): port=3 queue=5"
    );
}

#[test]
fn tables_print_as_intended() {
    let table_mod = TableMod {
        eviction: Some(Eviction::OTHER),
        vacancy: Some(Vacancy { down: 10, up: 20, now: 0 }),
        ..TableMod::new(2, TableMod::VACANCY_EVENTS)
    };
    reads!(
        table_mod,
        Version::V1_4,
        "OFPT_TABLE_MOD (OF1.4) (xid=0x1): table_id=2, eviction=on, vacancy=on vacancy:10,20"
    );
    let vacancy = Vacancy { down: 10, up: 20, now: 9 };
    let table = TableMod { vacancy: Some(vacancy), ..TableMod::new(2, TableMod::VACANCY_EVENTS) };
    let said = "table 2: eviction=off eviction_flags=(default) vacancy=on vacancy_down=10% \
                vacancy_up=20% vacancy=9%";
    reads!(
        TableStatus { reason: TableReason::VacancyDown, table },
        Version::V1_4,
        format!("OFPT_TABLE_STATUS (OF1.4) (xid=0x1): reason=VACANCY_DOWN table_desc:- {said}")
    );
    let body = ReplyBody::TableDesc(vec![table]);
    reads!(
        MultipartReply { more: false, body },
        Version::V1_4,
        format!("OFPST_TABLE_DESC reply (OF1.4) (xid=0x1): {said}")
    );
    reads!(
        TableMod::new(2, 0),
        Version::V1_1,
        "OFPT_TABLE_MOD (OF1.1) (xid=0x1): table_id=2, flow_miss_config=controller"
    );
    reads!(
        MultipartRequest::TableDesc,
        Version::V1_5,
        "OFPST_TABLE_DESC request (OF1.5) (xid=0x1):"
    );
}

/// Reads a message that only one of its kind's functions encodes.
fn read_as(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>, expected: &str) {
    if let Some(read) = super::ovs_ofctl(encode) {
        assert_eq!(read, expected);
    }
}

#[test]
fn roles_and_async_configs_print_as_intended() {
    reads!(
        RoleStatus {
            role: ControllerRole::Slave,
            reason: RoleReason::MasterRequest,
            generation_id: 7,
        },
        Version::V1_4,
        "OFPT_ROLE_STATUS (OF1.4) (xid=0x1): role=secondary generation_id=7 reason=primary_request"
    );
    let config = AsyncConfig {
        packet_in: [Some(7), Some(0)],
        port_status: [Some(7), Some(7)],
        role_status: [Some(3), None],
        table_status: [Some(24), None],
        request_forward: [Some(1), Some(2)],
        ..AsyncConfig::default()
    };
    read_as(
        |out| config.encode_set(Version::V1_4, 1, out),
        "OFPT_SET_ASYNC (OF1.4) (xid=0x1): primary: PACKET_IN: no_match action invalid_ttl \
         PORT_STATUS: add delete modify FLOW_REMOVED: (off) ROLE_STATUS: primary_request \
         configuration_changed TABLE_STATUS: vacancy_down vacancy_up REQUESTFORWARD: \
         group_mod_request secondary: PACKET_IN: (off) PORT_STATUS: add delete modify FLOW_REMOVED: \
         (off) ROLE_STATUS: (off) TABLE_STATUS: (off) REQUESTFORWARD: meter_mod_request",
    );
    let role = Role { role: ControllerRole::Master, generation_id: 7, short_id: None };
    read_as(
        |out| role.encode_request(Version::V1_2, 1, out),
        "OFPT_ROLE_REQUEST (OF1.2) (xid=0x1): role=primary generation_id=7",
    );
}

#[test]
fn bundles_print_as_intended() {
    let flags = BundleFlags::ATOMIC | BundleFlags::ORDERED;
    let command = BundleCommand::OpenRequest;
    let control = BundleControl { bundle_id: 0x12, command, flags, time: None };
    let mut inner = Vec::new();
    append(&mut inner, |out| FlowMod::add(Match::new()).encode(Version::V1_4, 1, out)).unwrap();
    let add = BundleAdd { bundle_id: 0x12, flags, message: &inner, time: None };
    reads!(
        control,
        Version::V1_4,
        "OFPT_BUNDLE_CONTROL (OF1.4) (xid=0x1): bundle_id=0x12 type=OPEN_REQUEST flags=atomic \
         ordered"
    );
    reads!(
        add,
        Version::V1_4,
        "OFPT_BUNDLE_ADD_MESSAGE (OF1.4) (xid=0x1): bundle_id=0x12 flags=atomic ordered \
         OFPT_FLOW_MOD (OF1.4) (xid=0x1): ADD actions=drop"
    );
    let group = GroupMod {
        command: GroupModCommand::Add,
        kind: GroupKind::All,
        group_id: 7,
        buckets: Vec::new(),
    };
    let mut request = Vec::new();
    append(&mut request, |out| group.encode(Version::V1_4, 1, out)).unwrap();
    reads!(
        RequestForward { request: &request },
        Version::V1_4,
        "OFPT_REQUESTFORWARD (OF1.4) (xid=0x1): reason=group_mod ADD group_id=7,type=all"
    );
}

#[test]
fn statistics_of_1_5_print_as_intended() {
    let flow = FlowStats {
        table_id: 2,
        duration: Duration::from_millis(1500),
        priority: 9,
        idle_timeout: 60,
        hard_timeout: 0,
        flags: FlowModFlags::default(),
        importance: 7,
        cookie: 0x12,
        packet_count: 3,
        byte_count: 180,
        match_: tcp(),
        instructions: Instructions::default(),
    };
    let match_ = "tcp,in_port=1,dl_vlan=7,dl_vlan_pcp=3,dl_src=02:00:00:00:00:01,nw_src=10.0.0.1,\
                  nw_dst=10.1.0.0/16,nw_tos=184,tp_dst=80";
    let versions = [(Version::V1_1, "1.1"), (Version::V1_4, "1.4"), (Version::V1_5, "1.5")];
    for (version, name) in versions {
        let (importance, said) =
            if version < Version::V1_4 { (0, "") } else { (7, " importance=7,") };
        let body = ReplyBody::Flow(vec![FlowStats { importance, ..flow.clone() }]);
        reads!(
            MultipartReply { more: false, body },
            version,
            format!(
                "OFPST_FLOW reply (OF{name}) (xid=0x1): cookie=0x12, duration=1.500s, table=2, \
                 n_packets=3, n_bytes=180, idle_timeout=60,{said} priority=9,{match_} actions=drop"
            )
        );
    }
    let sums = AggregateStats { packet_count: 5, byte_count: 300, flow_count: 2 };
    let body = ReplyBody::Aggregate(sums);
    reads!(
        MultipartReply { more: false, body },
        Version::V1_5,
        "OFPST_AGGREGATE reply (OF1.5) (xid=0x1): packet_count=5 byte_count=300 flow_count=2"
    );
    reads!(
        MultipartRequest::Flow(FlowStatsRequest::new(tcp())),
        Version::V1_5,
        format!("OFPST_FLOW request (OF1.5) (xid=0x1): {match_}")
    );
    let removed = FlowRemoved {
        match_: tcp(),
        cookie: 0x12,
        priority: 9,
        reason: FlowRemovedReason::IdleTimeout,
        table_id: 2,
        duration: Duration::from_millis(1500),
        idle_timeout: 60,
        hard_timeout: 0,
        packet_count: 3,
        byte_count: 180,
    };
    for (version, name) in versions {
        reads!(
            &removed,
            version,
            format!(
                "OFPT_FLOW_REMOVED (OF{name}) (xid=0x1): priority=9,{match_} reason=idle \
                 table_id=2 cookie:0x12 duration1.500s idle60 pkts3 bytes180"
            )
        );
    }
    let flags = FlowMonitorFlags::INITIAL | FlowMonitorFlags::ADD;
    let monitor = FlowMonitorRequest::add(5, flags, tcp());
    reads!(
        MultipartRequest::FlowMonitor(vec![monitor]),
        Version::V1_4,
        format!("OFPST_FLOW_MONITOR request (OF1.4) (xid=0x1): id=5 flags=initial,add {match_}")
    );
}
