use openflow::{
    Action, ControllerRole, Dpid, Features, FlowMod, FlowStatsRequest, GroupMod, Header, MacAddr,
    Match, MultipartReply, PortNo, ReplyBody,
};

use super::*;

fn identity(version: Version) -> Identity {
    Identity { dpid: Dpid(7), version, ports: 3, n_buffers: 16, max_flows: 2000 }
}

/// Passes a message to the switch; returns its replies.
fn told(switch: &mut Switch, message: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    switch.receive(message, &mut out).unwrap();
    cut(&out)
}

fn cut(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let (message, rest) = bytes.split_at(Header::decode(bytes).unwrap().length.into());
        messages.push(message.to_vec());
        bytes = rest;
    }
    messages
}

fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, encode).unwrap();
    out
}

/// Creates a switch that has received the controller's hello.
fn greeted(version: Version) -> Switch {
    let mut switch = Switch::new(identity(version));
    let hello = encoded(|room| Hello::new(&[version]).encode(0, room));
    assert_eq!(told(&mut switch, &hello), Vec::<Vec<u8>>::new());
    switch
}

fn ask(switch: &mut Switch, kind: Kind) -> Vec<Vec<u8>> {
    let version = switch.identity().version;
    told(switch, &encoded(|room| kind.encode_empty(version, 9, room)))
}

fn error_in(message: &[u8]) -> String {
    ErrorMessage::decode(message).unwrap().to_string()
}

#[test]
fn switch_settles_after_the_last_echo_reply() {
    for &version in Version::ALL {
        let mut switch = greeted(version);
        assert!(!switch.is_settled());
        let told = ask(&mut switch, Kind::FeaturesRequest);
        let features = Features::decode(&told[0]).unwrap();
        assert_eq!(features.dpid, Dpid(7));
        assert_eq!(features.ports.len(), if version.features().port_desc { 0 } else { 3 });
        assert!(switch.has_sent_features() && !switch.is_settled());
        // A second request before the first echo reply.
        let more = ask(&mut switch, Kind::GetConfigRequest);
        let reply = |echo: &[u8]| encoded(|room| echo_reply(echo, room));
        assert_eq!(self::told(&mut switch, &reply(&told[1])), Vec::<Vec<u8>>::new());
        assert!(!switch.is_settled());
        self::told(&mut switch, &reply(&more[1]));
        assert!(switch.is_settled());
        // A request after settling is answered without a further echo request.
        assert_eq!(ask(&mut switch, Kind::EchoRequest).len(), 1);
        assert!(switch.is_settled());
        // The same for a barrier.
        let barrier = ask(&mut switch, Kind::BarrierRequest);
        assert_eq!((barrier.len(), Header::decode(&barrier[0]).unwrap().xid), (1, 9));
    }
}

#[test]
fn unsolicited_echo_replies_do_not_settle() {
    let mut switch = greeted(Version::V1_3);
    ask(&mut switch, Kind::FeaturesRequest);
    for xid in [0, 9, ECHO_XID, u32::MAX] {
        let echo = Echo { is_reply: true, xid, data: &[] };
        told(&mut switch, &encoded(|room| echo.encode(Version::V1_3, room)));
        assert!(!switch.is_settled(), "{xid}");
    }
    // A reply to an echo request that was not sent yet is ignored.
    let mut switch = greeted(Version::V1_3);
    let forged = Echo { is_reply: true, xid: ECHO_XID | 0xffff, data: &[] };
    told(&mut switch, &encoded(|room| forged.encode(Version::V1_3, room)));
    ask(&mut switch, Kind::FeaturesRequest);
    assert!(!switch.is_settled());
}

#[test]
fn version_mismatch_is_rejected_by_both_sides() {
    let mut switch = Switch::new(identity(Version::V1_3));
    let (mut out, old) = (Vec::new(), encoded(|room| Hello::new(&[Version::V1_0]).encode(0, room)));
    let fault = switch.receive(&old, &mut out).unwrap_err();
    assert!(matches!(fault, Fault::Version { ours: Version::V1_3, .. }), "{fault}");
    assert_eq!(error_in(&out), "HELLO_FAILED/INCOMPATIBLE");

    let mut switch = Switch::new(identity(Version::V1_0));
    let refusal =
        ErrorMessage { version: Version::V1_0, kind: 0, code: 0, data: b"1.3 or nothing" };
    let message = encoded(|room| refusal.encode(1, room));
    let fault = switch.receive(&message, &mut Vec::new()).unwrap_err().to_string();
    assert!(fault.contains("HELLO_FAILED") && fault.contains("1.3 or nothing"), "{fault}");
}

#[test]
fn first_message_other_than_hello_is_named() {
    let mut switch = Switch::new(identity(Version::V1_0));
    let features = [1, 5, 0, 8, 0, 0, 0, 0];
    let fault = switch.receive(&features, &mut Vec::new()).unwrap_err().to_string();
    assert!(fault.contains("FEATURES_REQUEST"), "{fault}");
}

/// Returns the requests that a version has, except for those of abilities that an emulated switch lacks.
fn requests(version: Version) -> Vec<MultipartRequest<'static>> {
    use MultipartRequest as Ask;
    let all = FlowStatsRequest::new(Match::new());
    let (port_no, queue_id) = (PortNo::ANY, None);
    let requests = vec![
        Ask::Desc,
        Ask::Flow(all.clone()),
        Ask::Aggregate(all.clone()),
        Ask::Table,
        Ask::PortStats(PortNo::ANY),
        Ask::Queue { port_no, queue_id },
        Ask::Group(1),
        Ask::GroupDesc,
        Ask::GroupFeatures,
        Ask::Meter(1),
        Ask::MeterConfig(1),
        Ask::MeterFeatures,
        Ask::PortDesc,
        Ask::TableDesc,
        Ask::QueueDesc { port_no, queue_id },
        Ask::OneGroupDesc(1),
        Ask::OnePortDesc(PortNo(2)),
        Ask::FlowCounters(all),
    ];
    let is_in_version =
        |ask: &Ask<'_>| append(&mut Vec::new(), |room| ask.encode(version, 5, room)).is_ok();
    requests.into_iter().filter(is_in_version).collect()
}

#[test]
fn every_version_has_its_requests() {
    let counts: Vec<usize> = Version::ALL.iter().map(|version| requests(*version).len()).collect();
    assert_eq!(counts, [6, 8, 9, 13, 15, 18]);
}

#[test]
fn every_request_is_answered() {
    use MultipartRequest as Ask;
    for &version in Version::ALL {
        let mut switch = greeted(version);
        ask(&mut switch, Kind::FeaturesRequest);
        for request in &requests(version) {
            let told = told(&mut switch, &encoded(|room| request.encode(version, 5, room)));
            let reply = MultipartReply::decode(&told[0]).unwrap();
            assert!(!reply.more, "{request:?}");
            assert_eq!(Header::decode(&told[0]).unwrap().xid, 5);
            match reply.body {
                ReplyBody::PortDesc(ports) if *request == Ask::OnePortDesc(PortNo(2)) => {
                    assert_eq!((ports.len(), ports[0].port_no), (1, PortNo(2)));
                }
                ReplyBody::PortDesc(ports) => assert_eq!(ports.len(), 3),
                ReplyBody::PortStats(ports) => assert_eq!(ports.len(), 3),
                ReplyBody::Table(tables) => {
                    assert_eq!(tables.len(), usize::from(identity(version).n_tables()));
                }
                ReplyBody::TableDesc(tables) => assert_eq!(tables.len(), 8),
                ReplyBody::FlowCounters(flows) => assert_eq!(flows.len(), 0),
                _ => {}
            }
        }
    }
}

#[test]
fn switch_without_ports_describes_none() {
    let mut switch = Switch::new(Identity { ports: 0, ..identity(Version::V1_4) });
    told(&mut switch, &encoded(|room| Hello::new(&[Version::V1_4]).encode(0, room)));
    let request = encoded(|room| MultipartRequest::PortDesc.encode(Version::V1_4, 5, room));
    let told = told(&mut switch, &request);
    let reply = MultipartReply::decode(&told[0]).unwrap();
    assert_eq!((told.len(), reply.body), (1, ReplyBody::PortDesc(Vec::new())));
}

#[test]
fn unsupported_request_gets_the_specified_error() {
    for &version in Version::ALL {
        let mut switch = greeted(version);
        let unknown = [version.wire(), 77, 0, 8, 0, 0, 0, 1];
        assert_eq!(error_in(&told(&mut switch, &unknown)[0]), "BAD_REQUEST/BAD_TYPE");
    }
    let mut switch = greeted(Version::V1_3);
    let features = MultipartRequest::TableFeatures((&[]).into());
    let features = encoded(|room| features.encode(Version::V1_3, 1, room));
    assert_eq!(error_in(&told(&mut switch, &features)[0]), "BAD_REQUEST/BAD_MULTIPART");
    let group = [4, 15, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(error_in(&told(&mut switch, &group)[0]), "GROUP_MOD_FAILED/OUT_OF_GROUPS");
    assert!(GroupMod::decode(&group).is_ok());
    let meter = [4, 29, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(error_in(&told(&mut switch, &meter)[0]), "METER_MOD_FAILED/OUT_OF_METERS");
    let foreign = [4, 4, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(error_in(&told(&mut switch, &foreign)[0]), "BAD_REQUEST/BAD_EXPERIMENTER");
    let table = FlowMod::add(Match::new()).table(100);
    let table = encoded(|room| table.encode(Version::V1_3, 1, room));
    assert_eq!(error_in(&told(&mut switch, &table)[0]), "FLOW_MOD_FAILED/BAD_TABLE_ID");
}

#[test]
fn older_generation_id_is_stale() {
    let mut switch = greeted(Version::V1_3);
    let mut claim = |role, generation_id| {
        let role = Role { role, generation_id, short_id: None };
        told(&mut switch, &encoded(|room| role.encode_request(Version::V1_3, 1, room))).remove(0)
    };
    let reply = Role::decode_reply(&claim(ControllerRole::Master, 5)).unwrap();
    assert_eq!((reply.role, reply.generation_id), (ControllerRole::Master, 5));
    assert_eq!(error_in(&claim(ControllerRole::Slave, 4)), "ROLE_REQUEST_FAILED/STALE");
    let reply = Role::decode_reply(&claim(ControllerRole::NoChange, 0)).unwrap();
    assert_eq!(reply.role, ControllerRole::Master);
    assert!(Role::decode_reply(&claim(ControllerRole::Slave, 6)).is_ok());
}

#[test]
fn flow_stats_reply_is_complete_in_parts() {
    for &version in Version::ALL {
        let mut switch = greeted(version);
        ask(&mut switch, Kind::FeaturesRequest);
        let actions = [Action::output(PortNo(1))];
        for number in 0..1500_u64 {
            let [_, _, address @ ..] = number.to_be_bytes();
            let flow_mod = FlowMod::add(Match::new().eth_dst(MacAddr(address))).apply(&actions);
            let message = encoded(|room| flow_mod.encode(version, 1, room));
            let mut out = Vec::new();
            let event = switch.receive(&message, &mut out).unwrap();
            assert_eq!(event, Event::FlowMod { buffer_id: None });
            assert!(out.is_empty());
        }
        let request = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
        let told = told(&mut switch, &encoded(|room| request.encode(version, 5, room)));
        let (mut flows, mut ended) = (0, false);
        for part in told.iter().filter(|message| message[1] != 2) {
            let reply = MultipartReply::decode(part).unwrap();
            let ReplyBody::Flow(part) = reply.body else { panic!("flows") };
            assert!(!ended);
            ended = !reply.more;
            flows += part.len();
        }
        assert_eq!((flows, ended), (1500, true));
    }
}

#[test]
fn truncated_message_never_panics() {
    let flow_mod = FlowMod::add(Match::new().eth_dst(MacAddr([2; 6])));
    let whole = encoded(|room| flow_mod.encode(Version::V1_3, 1, room));
    for kind in 0..=40 {
        for len in 8..whole.len() {
            let mut message = whole[..len].to_vec();
            message[1] = kind;
            message[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
            let mut switch = greeted(Version::V1_3);
            let _ = switch.receive(&message, &mut Vec::new());
        }
    }
}
