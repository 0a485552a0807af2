//! Which capabilities a refused message needs, and the line that grants them.

use openflow::{Experimenter, FlowStatsRequest, MultipartRequest, NiciraAction};

use super::*;

const DPID: u64 = 2;

fn app(capabilities: Vec<Grant>) -> AppRights {
    AppRights::of(APP, &policy(capabilities))
}

/// The missing capabilities of a message, and the line of the configuration.
fn needs(app: &AppRights, version: Version, message: &[u8]) -> Option<(String, String)> {
    let why = app.at(DPID).check(version, message).expect_err("it is refused");
    app.missing(DPID, why, message).map(|missing| (missing.names(), missing.line))
}

fn flow(actions: &[Action]) -> Vec<u8> {
    bytes(|out| own().apply(actions).encode(Version::V1_3, 0, out))
}

fn packet_out(actions: &[Action]) -> Vec<u8> {
    let packet_out = PacketOut::new(PortNo(1), actions, &[0; 60]);
    bytes(|out| packet_out.encode(Version::V1_3, 0, out))
}

fn flow_stats(table_id: u8) -> Vec<u8> {
    let flows = FlowStatsRequest { table_id, ..FlowStatsRequest::new(Match::new()) };
    bytes(|out| MultipartRequest::Flow(flows.clone()).encode(Version::V1_3, 0, out))
}

#[test]
fn missing_capabilities_are_named() {
    use Capability::{FlowWrite, PacketIn, PacketOut as Out};
    let note = Action::from(NiciraAction::Note([0; 6].into()));
    let controller = [Action::output(PortNo::CONTROLLER)];
    let vendor = bytes(|out| {
        let message = Experimenter { experimenter: 0x2320, data: &[0, 0, 0, 12] };
        message.encode(Version::V1_3, 0, out)
    });
    let tables = bytes(|out| MultipartRequest::Table.encode(Version::V1_3, 0, out));
    let barrier = bytes(|out| Kind::BarrierRequest.encode_empty(Version::V1_3, 0, out));
    let of_group = bytes(|out| MultipartRequest::Group(8 << 16).encode(Version::V1_3, 0, out));
    for (granted, message, missing) in [
        (&[][..], flow(&OUT), "flow.write"),
        (&[], packet_out(&OUT), "packet-out"),
        (&[], packet_out(&controller), "packet-out, packet-out.reserved"),
        (&[Out], packet_out(&controller), "packet-out.reserved"),
        (&[FlowWrite], flow(&[Action::output(PortNo::NORMAL)]), "packet-out.reserved"),
        (&[FlowWrite], flow(&[Action::PopMpls(0x88cc)]), "topology.probe"),
        (&[FlowWrite], flow(std::slice::from_ref(&note)), "experimenter:0x00002320"),
        (&[], flow(&[note]), "flow.write, experimenter:0x00002320"),
        (&[], vendor, "experimenter:0x00002320"),
        (&[], tables, "stats.read"),
        (&[], flow_stats(0xff), "stats.read, flow.read"),
        (&[FlowWrite], flow_stats(0xff), "stats.read"),
        (&[Capability::StatsRead, Capability::GroupWrite], of_group, "flow.read"),
        (&[], barrier, "packet-out"),
    ] {
        let app = app(Grant::unscoped(granted));
        let (names, line) = needs(&app, Version::V1_3, &message).expect(missing);
        assert_eq!(names, missing);
        let grants = |names: &str| names.split(", ").map(|it| format!("\"{it}\"")).collect();
        let mut all: Vec<String> = granted.iter().map(|it| format!("\"{it}\"")).collect();
        all.extend::<Vec<String>>(grants(missing));
        assert_eq!(line, format!("capabilities = [{}]", all.join(", ")));
    }
    let delete_all = FlowMod { command: FlowModCommand::Delete, ..FlowMod::add(Match::new()) };
    let delete_all = bytes(|out| delete_all.encode(Version::V1_0, 0, out));
    let (names, _) =
        needs(&app(Grant::unscoped(&[PacketIn, FlowWrite])), Version::V1_0, &delete_all).unwrap();
    assert_eq!(names, "flow.write.any");
}

#[test]
fn message_that_no_capability_admits_has_no_remedy() {
    let all = app(Grant::unscoped(&Capability::NAMED.map(|(_, it)| it)));
    let high = bytes(|out| own().priority(7).encode(Version::V1_3, 0, out));
    assert_eq!(needs(&all, Version::V1_3, &high), None);
    assert_eq!(needs(&all, Version::V1_3, &[4, 0, 0, 8, 0, 0, 0, 0]), None);
    let none = app(vec![]);
    let (names, _) = needs(&none, Version::V1_3, &high).expect("this too");
    assert_eq!(names, "flow.write", "another reason is left, and it is reported next");
    for size in 0..high.len() {
        let _ = none.missing(DPID, Refusal::Capability, &high[..size]);
    }
}

#[test]
fn remedy_of_a_scoped_app_has_a_scope() {
    let grant = |dpids: &[u64], tables: &[u8]| Grant {
        capability: Capability::FlowWrite,
        dpids: dpids.to_vec(),
        tables: tables.to_vec(),
    };
    let line = |granted: Grant| {
        let app = app(vec![Capability::PacketIn.into(), granted]);
        needs(&app, Version::V1_3, &flow(&OUT)).expect("flow.write there").1
    };
    let dpid = |dpid| format!("dpids = [\"00:00:00:00:00:00:00:0{dpid}\"]");
    assert_eq!(
        line(grant(&[1], &[])),
        format!(
            "capabilities = [\"packet-in\", {{ flow.write = {{ {} }} }}, {{ flow.write = {{ {} }} }}]",
            dpid(1),
            dpid(2)
        )
    );
    assert!(line(grant(&[], &[3])).ends_with(", { flow.write = { tables = [0] } }]"));
    let both = format!(", {{ flow.write = {{ {}, tables = [0] }} }}]", dpid(2));
    assert!(line(grant(&[2], &[3])).ends_with(&both));
    let long: Vec<u64> = (10..40).collect();
    let added = format!("add {{ flow.write = {{ {} }} }} to its capabilities", dpid(2));
    assert_eq!(line(grant(&long, &[])), added);

    let others = Policy { has_other_rights: true, ..policy(vec![]) };
    let (_, line) = needs(&AppRights::of(APP, &others), Version::V1_3, &flow(&OUT)).unwrap();
    assert_eq!(line, "add \"flow.write\" to its capabilities");
}

#[test]
fn remedy_names_the_message() {
    let missing = app(vec![]).missing(DPID, Refusal::Capability, &flow_stats(0xff)).unwrap();
    assert_eq!(
        missing.to_string(),
        "multipart_request of type 1 (flows) needs stats.read, flow.read; the operator can grant it: \
         capabilities = [\"stats.read\", \"flow.read\"]"
    );
}
