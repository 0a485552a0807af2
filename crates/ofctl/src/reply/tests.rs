//! Tests replies that were encoded as a switch would.

use openflow::{
    Action, AggregateStats, Bucket, DescText, FlowModFlags, GroupStats, Instructions, MacAddr,
    Match, MeterStats, PortNo, Queue, QueueStats, Text,
};

use super::*;
use crate::Question;

fn own() -> Own {
    Own {
        priorities: [(49_200, 11_111)].into(),
        groups: (0x7_0000, 0x7_ffff),
        meters: (0x700, 0x7ff),
    }
}

fn written(version: Version, what: &str, filter: &Value, bodies: Vec<ReplyBody<'_>>) -> Value {
    let mut messages = Vec::new();
    let count = bodies.len();
    for (at, body) in bodies.into_iter().enumerate() {
        let reply = MultipartReply { more: at + 1 < count, body };
        openflow::append(&mut messages, |room| reply.encode(version, 7, room)).unwrap();
    }
    let question = Question::named(version, what, &[], filter).unwrap().unwrap();
    assert!(question.message().is_ok());
    let answer = question.json(1, &messages, &own()).unwrap();
    answer["1"].clone()
}

fn flow(actions: &[Action]) -> FlowStats<'_> {
    FlowStats {
        table_id: 0,
        duration: Duration::new(3, 5),
        priority: 49_200,
        idle_timeout: 0,
        hard_timeout: 9,
        flags: FlowModFlags(1),
        importance: 0,
        cookie: 1,
        packet_count: 2,
        byte_count: 200,
        match_: Match::new().in_port(PortNo(1)),
        instructions: Instructions { apply: actions.into(), ..Instructions::default() },
    }
}

#[test]
fn flows_of_several_parts_are_one_list() {
    let out = [Action::output(PortNo(2)), Action::Group(0x7_0005)];
    let bodies = || vec![ReplyBody::Flow(vec![flow(&out)]), ReplyBody::Flow(vec![flow(&out[..1])])];
    let flows = written(Version::V1_3, "flow", &Value::Null, bodies());
    let expected = json!({
        "priority": 11_111, "cookie": 1, "idle_timeout": 0, "hard_timeout": 9, "byte_count": 200,
        "packet_count": 2, "table_id": 0, "actions": ["OUTPUT:2", "GROUP:5"],
        "match": {"in_port": 1}, "length": 96, "flags": 1, "duration_sec": 3, "duration_nsec": 5,
    });
    assert_eq!(flows[0], expected);
    assert_eq!(flows.as_array().unwrap().len(), 2);
    let none = written(Version::V1_3, "flow", &json!({"priority": 5}), bodies());
    assert_eq!(none, json!([]));
    let old = FlowStats { flags: FlowModFlags(0), ..flow(&out[..1]) };
    let flows = written(Version::V1_0, "flow", &Value::Null, vec![ReplyBody::Flow(vec![old])]);
    assert_eq!(flows[0]["actions"], json!(["OUTPUT:2"]));
    assert_eq!((&flows[0]["length"], &flows[0]["flags"]), (&Value::Null, &Value::Null));
}

#[test]
fn description_is_an_object() {
    let text = DescText { dp_desc: Text::new("s1"), mfr_desc: Text::new("M"), ..<_>::default() };
    let answer =
        written(Version::V1_0, "desc", &Value::Null, vec![ReplyBody::Desc(Box::new(text))]);
    let expected =
        json!({"mfr_desc": "M", "hw_desc": "", "sw_desc": "", "serial_num": "", "dp_desc": "s1"});
    assert_eq!(answer, expected);
}

#[test]
fn counters_have_their_names() {
    let aggregate = AggregateStats { packet_count: 18, byte_count: 756, flow_count: 3 };
    let answer = written(
        Version::V1_3,
        "aggregateflow",
        &Value::Null,
        vec![ReplyBody::Aggregate(aggregate)],
    );
    assert_eq!(answer, json!([{"packet_count": 18, "byte_count": 756, "flow_count": 3}]));
    let queue = QueueStats {
        port_no: PortNo(1),
        queue_id: 2,
        tx_bytes: 3,
        tx_packets: 4,
        tx_errors: 5,
        duration: Some(Duration::new(6, 7)),
    };
    let queue = ReplyBody::Queue(vec![queue]);
    let answer = written(Version::V1_3, "queue", &Value::Null, vec![queue]);
    let expected = json!({"port_no": 1, "queue_id": 2, "tx_bytes": 3, "tx_packets": 4,
                          "tx_errors": 5, "duration_sec": 6, "duration_nsec": 7});
    assert_eq!(answer, json!([expected]));
}

#[test]
fn groups_and_meters_have_the_owners_numbers() {
    let desc = GroupDesc {
        kind: GroupKind::All,
        group_id: 0x7_0001,
        buckets: vec![Bucket::new([Action::output(PortNo(1))])],
    };
    let answer =
        written(Version::V1_3, "groupdesc", &Value::Null, vec![ReplyBody::GroupDesc(vec![desc])]);
    let bucket = json!({"weight": 0, "watch_port": u32::MAX, "watch_group": u32::MAX,
                        "actions": ["OUTPUT:1"]});
    assert_eq!(answer, json!([{"buckets": [bucket], "group_id": 1, "type": "ALL"}]));
    let stats = GroupStats {
        group_id: 0x7_0001,
        ref_count: 1,
        packet_count: 2,
        byte_count: 3,
        duration: Some(Duration::new(4, 5)),
        buckets: vec![Counter { packet_count: 2, byte_count: 3 }],
    };
    let answer = written(Version::V1_3, "group", &Value::Null, vec![ReplyBody::Group(vec![stats])]);
    assert_eq!((&answer[0]["group_id"], &answer[0]["length"]), (&json!(1), &json!(56)));
    let stats = MeterStats {
        meter_id: 0x701,
        flow_count: 0,
        packet_in_count: 2,
        byte_in_count: 3,
        duration: Some(Duration::new(4, 5)),
        bands: vec![Counter { packet_count: 2, byte_count: 3 }],
    };
    let answer = written(Version::V1_3, "meter", &Value::Null, vec![ReplyBody::Meter(vec![stats])]);
    assert_eq!((&answer[0]["meter_id"], &answer[0]["len"]), (&json!(1), &json!(56)));
    let config = MeterConfig {
        flags: MeterFlags(5),
        meter_id: 0x702,
        bands: vec![MeterBand::Drop { rate: 1000, burst_size: 0 }],
    };
    let answer = written(
        Version::V1_3,
        "meterconfig",
        &Value::Null,
        vec![ReplyBody::MeterConfig(vec![config])],
    );
    let band = json!({"type": "DROP", "rate": 1000, "burst_size": 0});
    assert_eq!(answer, json!([{"flags": ["KBPS", "BURST"], "bands": [band], "meter_id": 2}]));
}

#[test]
fn features_are_lists_of_names() {
    let features = MeterFeatures {
        max_meter: 16_777_216,
        band_types: 2,
        capabilities: 15,
        max_bands: 255,
        max_color: 0,
        features: 0,
    };
    let answer = written(
        Version::V1_3,
        "meterfeatures",
        &Value::Null,
        vec![ReplyBody::MeterFeatures(features)],
    );
    assert_eq!(answer[0]["band_types"], json!(["DROP"]));
    assert_eq!(answer[0]["capabilities"], json!(["KBPS", "PKTPS", "BURST", "STATS"]));
    let features = GroupFeatures {
        types: 5,
        capabilities: 1,
        max_groups: [10, 0, 11, 0],
        actions: [1, 0, 1 << 22, 0],
    };
    let answer = written(
        Version::V1_3,
        "groupfeatures",
        &Value::Null,
        vec![ReplyBody::GroupFeatures(features)],
    );
    let expected = json!([{
        "types": ["ALL", "INDIRECT"], "capabilities": ["SELECT_WEIGHT"],
        "max_groups": [{"ALL": 10}, {"SELECT": 0}, {"INDIRECT": 11}, {"FF": 0}],
        "actions": [{"ALL": ["OUTPUT"]}, {"SELECT": []}, {"INDIRECT": ["GROUP"]}, {"FF": []}],
    }]);
    assert_eq!(answer, expected);
}

#[test]
fn ports_and_queues_are_described() {
    let port = PortDesc::new(PortNo::LOCAL, MacAddr([2, 0, 0, 0, 0, 1]), "s1");
    let answer =
        written(Version::V1_3, "portdesc", &Value::Null, vec![ReplyBody::PortDesc(vec![port])]);
    assert_eq!((&answer[0]["port_no"], &answer[0]["name"]), (&json!("LOCAL"), &json!("s1")));
    let queue = Queue { queue_id: 1, port: PortNo(1), min_rate: Some(50), max_rate: None };
    let config = QueueConfig { port: PortNo::ANY, queues: vec![queue] };
    let mut message = Vec::new();
    openflow::append(&mut message, |room| config.encode(Version::V1_3, 7, room)).unwrap();
    let question = Question::named(Version::V1_3, "queueconfig", &["ALL"], &Value::Null);
    let answer = question.unwrap().unwrap().json(1, &message, &own()).unwrap();
    let rate = json!({"property": "MIN_RATE", "rate": 50});
    let queue = json!({"properties": [rate], "port": 1, "queue_id": 1});
    assert_eq!(answer, json!({"1": [{"queues": [queue], "port": "ANY"}]}));
}

#[test]
fn questions_that_do_not_exist_are_refused() {
    let named = |version, what, arguments: &[&str]| {
        Question::named(version, what, arguments, &Value::Null).map(|it| it.is_some())
    };
    assert_eq!(named(Version::V1_3, "nonsense", &[]), Ok(false));
    assert_eq!(named(Version::V1_3, "desc", &["1"]), Ok(false));
    assert_eq!(named(Version::V1_3, "port", &["1"]), Ok(true));
    assert!(matches!(named(Version::V1_0, "group", &[]), Err(OfctlError::Unsupported(_))));
    assert!(matches!(named(Version::V1_3, "queuedesc", &[]), Err(OfctlError::Unsupported(_))));
    assert!(matches!(named(Version::V1_3, "port", &["x"]), Err(OfctlError::Invalid(_))));
}

#[test]
fn malformed_replies_are_refused() {
    let question = Question::named(Version::V1_3, "desc", &[], &Value::Null).unwrap().unwrap();
    for bytes in [&[4, 19][..], &[4, 19, 0, 0, 0, 0, 0, 0], &[4, 19, 0, 16, 0, 0, 0, 0, 0, 1]] {
        assert!(question.json(1, bytes, &own()).is_err(), "{bytes:?}");
    }
}
