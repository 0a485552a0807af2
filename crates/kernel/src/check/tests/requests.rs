//! What may be asked, and what else may be changed.

use openflow::{
    Experimenter, FlowStatsRequest, MeterBand, MeterFlags, MeterMod, MeterModCommand,
    MultipartRequest, PortConfig, PortFeatures, PortMod, QueueConfig, TableMod,
};

use super::*;

const NEW: Version = Version::V1_3;

/// May ask for statistics, and has no flows, groups or meters.
fn curious() -> Rights {
    rights(&[Capability::StatsRead])
}

/// May ask for statistics, and write its own flows, groups and meters.
fn writer() -> Rights {
    use Capability::{FlowWrite, GroupWrite, MeterWrite, StatsRead};
    rights(&[StatsRead, FlowWrite, GroupWrite, MeterWrite])
}

fn request(version: Version, request: &MultipartRequest<'_>) -> Vec<u8> {
    bytes(|out| request.encode(version, 0, out))
}

fn ask(rights: &Rights, version: Version, asked: &MultipartRequest<'_>) -> Result<u16, Refusal> {
    check(rights, version, &request(version, asked)).map(|allowed| match allowed {
        Allowed::Request(Expects { kind: Kind::MultipartReply, what }) => what,
        other => panic!("{other:?}"),
    })
}

#[test]
fn barrier_needs_any_other_capability() {
    for version in VERSIONS {
        let barrier = bytes(|out| Kind::BarrierRequest.encode_empty(version, 0, out));
        let expected = Allowed::Request(Expects::only(Kind::BarrierReply));
        for capability in [
            Capability::PacketOut,
            Capability::FlowWrite,
            Capability::FlowWriteAny,
            Capability::GroupWrite,
            Capability::MeterWrite,
            Capability::SwitchConfig,
            Capability::Experimenter(1),
        ] {
            assert_eq!(check(&rights(&[capability]), version, &barrier), Ok(expected));
        }
        assert_eq!(check(&curious(), version, &barrier), Err(Refusal::Capability));
        let mut longer = [&barrier[..], &[0; 8]].concat();
        longer[3] = 16;
        assert_eq!(check(&usual(), version, &longer), Err(Refusal::Shape));
    }
}

#[test]
fn statistics_and_descriptions_need_stats_read() {
    use MultipartRequest as Ask;
    let flows = || FlowStatsRequest::new(Match::new());
    let old = [
        (Ask::Desc, 0),
        (Ask::Flow(flows()), 1),
        (Ask::Table, 3),
        (Ask::PortStats(PortNo::ANY), 4),
        (Ask::Queue { port_no: PortNo::ANY, queue_id: None }, 5),
    ];
    let new = [
        (Ask::Aggregate(flows()), 2),
        (Ask::Group(7 << 16), 6),
        (Ask::GroupDesc, 7),
        (Ask::GroupFeatures, 8),
        (Ask::Meter(7 << 8), 9),
        (Ask::MeterConfig(MeterMod::ALL_METERS), 10),
        (Ask::MeterFeatures, 11),
        (Ask::TableFeatures((&[]).into()), 12),
        (Ask::PortDesc, 13),
    ];
    for (request, what) in &old {
        assert_eq!(ask(&writer(), Version::V1_0, request), Ok(*what));
    }
    for (request, what) in old.iter().chain(&new) {
        assert_eq!(ask(&writer(), NEW, request), Ok(*what), "{request:?}");
        assert_eq!(ask(&usual(), NEW, request), Err(Refusal::Capability), "{request:?}");
    }
    let config = bytes(|out| Kind::GetConfigRequest.encode_empty(NEW, 0, out));
    let expected = Allowed::Request(Expects::only(Kind::GetConfigReply));
    assert_eq!(check(&curious(), NEW, &config), Ok(expected));
    assert_eq!(check(&usual(), NEW, &config), Err(Refusal::Capability));
    let newest = [
        (Ask::OnePortDesc(PortNo(1)), 13),
        (Ask::TableDesc, 14),
        (Ask::QueueDesc { port_no: PortNo::ANY, queue_id: None }, 15),
    ];
    for (request, what) in &newest {
        assert_eq!(ask(&writer(), Version::V1_5, request), Ok(*what), "{request:?}");
        assert_eq!(ask(&usual(), Version::V1_5, request), Err(Refusal::Capability), "{request:?}");
    }
    // OpenFlow 1.4 has a multipart request instead.
    for version in VERSIONS.into_iter().filter(|version| !version.features().bundles) {
        let queues = bytes(|out| QueueConfig::encode_request(PortNo(1), version, 0, out));
        let expected = Allowed::Request(Expects::only(Kind::QueueGetConfigReply));
        assert_eq!(check(&curious(), version, &queues), Ok(expected));
        assert_eq!(check(&usual(), version, &queues), Err(Refusal::Capability));
        let mut longer = [&queues[..], &[0; 8]].concat();
        longer[3] += 8;
        assert_eq!(check(&curious(), version, &longer), Err(Refusal::Shape));
    }
}

#[test]
fn statistics_that_would_be_empty_are_refused() {
    use Capability::{FlowRead, FlowWrite, FlowWriteAny, GroupWrite, MeterWrite, StatsRead};
    use MultipartRequest as Ask;
    let flows = || FlowStatsRequest::new(Match::new());
    for (request, writing) in [
        (Ask::Flow(flows()), FlowWrite),
        (Ask::Flow(flows()), FlowWriteAny),
        (Ask::Aggregate(flows()), FlowWrite),
        (Ask::Group(GroupMod::ALL_GROUPS), GroupWrite),
        (Ask::GroupDesc, GroupWrite),
        (Ask::Meter(MeterMod::ALL_METERS), MeterWrite),
        (Ask::MeterConfig(MeterMod::ALL_METERS), MeterWrite),
    ] {
        assert_eq!(ask(&curious(), NEW, &request), Err(Refusal::Capability), "{request:?}");
        for other in [FlowWrite, GroupWrite, MeterWrite, FlowRead] {
            let answer = ask(&rights(&[StatsRead, other]), NEW, &request);
            let suffices = other == FlowRead || other == writing;
            assert_eq!(answer.is_ok(), suffices || writing == FlowWriteAny && other == FlowWrite);
        }
        assert!(ask(&rights(&[StatsRead, writing]), NEW, &request).is_ok(), "{request:?}");
    }
    let old = ask(&curious(), Version::V1_0, &Ask::Flow(flows()));
    assert_eq!(old, Err(Refusal::Capability));
}

#[test]
fn changing_unknown_or_partial_request_is_refused() {
    let table = [0, 64].into_iter().chain([0; 62]).collect::<Vec<u8>>();
    let mut order = request(NEW, &MultipartRequest::TableFeatures((&[]).into()));
    order.extend(&table);
    order[3] = u8::try_from(order.len()).unwrap();
    assert_eq!(check(&all(), NEW, &order), Err(Refusal::Kind));
    let mut parts = request(NEW, &MultipartRequest::Desc);
    parts[11] = 1;
    assert_eq!(check(&all(), NEW, &parts), Err(Refusal::Shape));
    let mut unknown = request(NEW, &MultipartRequest::Desc);
    unknown[9] = 77;
    assert_eq!(check(&all(), NEW, &unknown), Err(Refusal::Shape));
}

/// Cookie and mask with which a request for flows goes out.
fn narrowed(rights: &Rights, cookie: u64, cookie_mask: u64) -> Result<(u64, u64), Refusal> {
    let flows = FlowStatsRequest { cookie, cookie_mask, ..FlowStatsRequest::new(Match::new()) };
    let all = [MultipartRequest::Flow(flows.clone()), MultipartRequest::Aggregate(flows)];
    let [flows, sum] = all.map(|asked| {
        let mut message = request(NEW, &asked);
        rights.check(NEW, &message)?.mark(APP, &mut message);
        match MultipartRequest::decode(&message).unwrap() {
            MultipartRequest::Flow(flows) | MultipartRequest::Aggregate(flows) => {
                Ok((flows.cookie, flows.cookie_mask))
            }
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(flows, sum);
    flows
}

#[test]
fn flow_statistics_are_narrowed_in_1_3() {
    let own = 7 << 48;
    let all_16 = 0xffff << 48;
    assert_eq!(narrowed(&writer(), 0, 0), Ok((own, all_16)));
    assert_eq!(narrowed(&writer(), 5, 0xff), Ok((own | 5, all_16 | 0xff)));
    assert_eq!(narrowed(&writer(), 8 << 48, 0), Err(Refusal::Cookie));
    assert_eq!(narrowed(&writer(), 0, 1 << 48), Err(Refusal::Cookie));
    let reader = rights(&[Capability::StatsRead, Capability::FlowRead]);
    assert_eq!(narrowed(&reader, 0, 0), Ok((0, 0)), "everybody's");
    assert_eq!(narrowed(&reader, 5, 0xff), Ok((own | 5, all_16 | 0xff)), "its own with this name");
}

#[test]
fn sum_that_cannot_be_narrowed_in_1_0_needs_flow_read() {
    let sum = MultipartRequest::Aggregate(FlowStatsRequest::new(Match::new()));
    assert_eq!(ask(&writer(), Version::V1_0, &sum), Err(Refusal::Capability));
    let reader = rights(&[Capability::StatsRead, Capability::FlowRead]);
    assert_eq!(ask(&reader, Version::V1_0, &sum), Ok(2));
    assert_eq!(ask(&rights(&[Capability::FlowRead]), NEW, &sum), Err(Refusal::Capability));
}

#[test]
fn group_and_meter_statistics_are_limited() {
    use MultipartRequest as Ask;
    let reader = rights(&[Capability::StatsRead, Capability::FlowRead]);
    for (asked, allowed) in [
        (Ask::Group(7 << 16 | 1), true),
        (Ask::Group(GroupMod::ALL_GROUPS), true),
        (Ask::Group(8 << 16), false),
        (Ask::Meter(7 << 8 | 1), true),
        (Ask::Meter(8 << 8), false),
        (Ask::MeterConfig(MeterMod::ALL_METERS), true),
        (Ask::MeterConfig(0xffff_fffe), false), // the controller's
    ] {
        let answer = ask(&writer(), NEW, &asked);
        assert_eq!(answer.is_ok(), allowed, "{asked:?}");
        assert!(allowed || answer == Err(Refusal::Id));
        assert!(ask(&reader, NEW, &asked).is_ok());
    }
}

#[test]
fn meters_are_the_apps_own() {
    let meter = |meter_id, band| {
        let bands = vec![band];
        let command = MeterModCommand::Add;
        let meter_mod = MeterMod { command, flags: MeterFlags::KBPS, meter_id, bands };
        bytes(|out| meter_mod.encode(NEW, 0, out))
    };
    let slow = MeterBand::Drop { rate: 1, burst_size: 0 };
    let own = meter(7 << 8, slow.clone());
    let writer = rights(&[Capability::FlowWrite, Capability::MeterWrite]);
    assert_eq!(check(&writer, NEW, &own), Ok(Allowed::MeterMod { deletes: false }));
    assert_eq!(check(&usual(), NEW, &own), Err(Refusal::Capability));
    for foreign in [1, (7 << 8) - 1, 8 << 8, MeterMod::ALL_METERS] {
        assert_eq!(check(&writer, NEW, &meter(foreign, slow.clone())), Err(Refusal::Id));
        let metered = super::own().meter(foreign);
        for version in VERSIONS.into_iter().filter(|version| version.features().meters) {
            assert_eq!(flow_mod(&writer, version, &metered), Err(Refusal::Id), "{version}");
        }
    }
    for version in VERSIONS.into_iter().filter(|version| version.features().meters) {
        let own = super::own().meter(7 << 8 | 0xff);
        assert!(flow_mod(&writer, version, &own).is_ok(), "{version}");
        // In 1.5 a meter may also be an action behind others: the allow-list does not have it.
        let behind = [Action::output(PortNo(1)), Action::Meter(8 << 8)];
        let sent =
            append(&mut Vec::new(), |out| super::own().apply(&behind).encode(version, 0, out));
        if sent.is_ok() {
            let flow = super::own().apply(&behind);
            assert_eq!(flow_mod(&writer, version, &flow), Err(Refusal::Action), "{version}");
        }
    }
    let strange = |experimenter| {
        let (rate, burst_size, data) = (1, 0, Vec::new().into());
        meter(7 << 8, MeterBand::Experimenter { rate, burst_size, experimenter, data })
    };
    assert_eq!(check(&writer, NEW, &strange(0x2320)), Err(Refusal::Action));
    assert_eq!(check(&all(), NEW, &strange(0x2320)), Ok(Allowed::MeterMod { deletes: false }));
    assert_eq!(check(&all(), NEW, &strange(0x2321)), Err(Refusal::Action));
    let unknown = MeterBand::Unknown { kind: 77, body: vec![0; 8].into() };
    assert_eq!(check(&all(), NEW, &meter(7 << 8, unknown)), Err(Refusal::Action));
}

#[test]
fn ports_and_tables_need_switch_config() {
    let config = rights(&[Capability::SwitchConfig]);
    for version in VERSIONS {
        let port_mod = PortMod {
            port_no: PortNo(1),
            hw_addr: openflow::MacAddr([2, 0, 0, 0, 0, 1]),
            config: PortConfig(1),
            mask: PortConfig(1),
            advertise: PortFeatures(0),
        };
        let message = bytes(|out| port_mod.encode(version, 0, out));
        assert_eq!(check(&config, version, &message), Ok(Allowed::Config));
        assert_eq!(check(&usual(), version, &message), Err(Refusal::Capability));
    }
    let table_mod = TableMod::new(0, 0);
    let message = bytes(|out| table_mod.encode(NEW, 0, out));
    assert_eq!(check(&config, NEW, &message), Ok(Allowed::Config));
    assert_eq!(check(&usual(), NEW, &message), Err(Refusal::Capability));
}

#[test]
fn experimenter_message_needs_its_grant() {
    for version in VERSIONS {
        let message = |experimenter| {
            let message = Experimenter { experimenter, data: &[0, 0, 0, 25] };
            bytes(|out| message.encode(version, 0, out))
        };
        let granted = rights(&[Capability::Experimenter(0x2320)]);
        assert_eq!(check(&granted, version, &message(0x2320)), Ok(Allowed::Experimenter));
        assert_eq!(check(&granted, version, &message(0x2321)), Err(Refusal::Capability));
        let stats = MultipartRequest::Experimenter { experimenter: 0x2320, data: &[0; 8] };
        let both = rights(&[Capability::Experimenter(0x2320), Capability::StatsRead]);
        assert_eq!(ask(&both, version, &stats), Err(Refusal::Capability), "flows of others");
        let reads = [
            &[Capability::Experimenter(0x2320), Capability::StatsRead][..],
            &[Capability::FlowRead],
        ];
        assert_eq!(ask(&rights(&reads.concat()), version, &stats), Ok(0xffff));
        let ipfix = MultipartRequest::Experimenter { experimenter: 0x2320, data: &[0, 0, 0, 3] };
        assert_eq!(ask(&both, version, &ipfix), Ok(0xffff));
        assert_eq!(ask(&curious(), version, &stats), Err(Refusal::Capability));
        assert_eq!(ask(&granted, version, &stats), Err(Refusal::Capability));
    }
}

#[test]
fn garbage_in_a_request_is_an_answer_not_a_panic() {
    let flows = FlowStatsRequest::new(Match::new().in_port(PortNo(1)));
    for version in VERSIONS {
        let message = request(version, &MultipartRequest::Flow(flows.clone()));
        for at in 8..message.len() - 1 {
            for value in [0_u16, 1, 7, 8, 0xffff] {
                let mut garbled = message.clone();
                garbled[at..at + 2].copy_from_slice(&value.to_be_bytes());
                let _ = check(&all(), version, &garbled);
            }
        }
    }
}
