//! Makes flow-mods, group-mods, meter-mods and port-mods, without transaction ids.

use openflow::{
    Bucket, EncodeError, FlowMod, FlowModCommand, FlowModFlags, GroupKind, GroupMod,
    GroupModCommand, MacAddr, Match, MeterBand, MeterFlags, MeterMod, MeterModCommand, PortMod,
    Version,
};
use serde_json::Value;

use crate::action::{Program, action, elements};
use crate::number::{GROUPS, METERS, TABLES, narrow, of_key, port, port_of_key};
use crate::{OfctlError, has_old_names, invalid, matching, matching_1_0};

/// The flag of an emergency flow, as OpenFlow 1.0 numbers it.
const EMERGENCY: u16 = 1 << 2;

/// The number of no buffer.
const NO_BUFFER: u32 = u32::MAX;

/// The present state of a port, for a port-mod that leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortNow {
    /// Its Ethernet address.
    pub hw_addr: MacAddr,
    /// The features that it advertises, as the switch's version has them.
    pub advertised: u32,
}

/// Encodes a message at the end of a new buffer.
pub(crate) fn encoded(
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Vec<u8>, OfctlError> {
    let mut message = Vec::new();
    openflow::append(&mut message, encode)?;
    Ok(message)
}

/// Reads the match of a request; a request without one has the match that accepts everything.
pub(crate) fn match_of(request: &Value, version: Version) -> Result<Match, OfctlError> {
    match request.get("match") {
        None => Ok(Match::new()),
        Some(match_) if has_old_names(version) => matching_1_0::read(match_, version),
        Some(match_) => matching::read(match_, version),
    }
}

/// Makes a flow-mod in the switch's version.
///
/// # Errors
/// [`OfctlError`]
pub fn flow_mod(
    version: Version,
    request: &Value,
    command: FlowModCommand,
) -> Result<Vec<u8>, OfctlError> {
    object("a flow", request)?;
    let program = Program::read(request.get("actions"), version)?;
    let default = if has_old_names(version) { FlowMod::DEFAULT_PRIORITY } else { 0 };
    let mut flow = FlowMod::new(command, match_of(request, version)?)
        .cookie(of_key(request, "cookie", 0)?)
        .priority(of_key(request, "priority", default)?)
        .idle_timeout(of_key(request, "idle_timeout", 0)?)
        .hard_timeout(of_key(request, "hard_timeout", 0)?)
        .out_port(port_of_key(request, "out_port", version)?);
    let buffer = match request.get("buffer_id") {
        Some(Value::String(name)) if matches!(name.as_str(), "NO_BUFFER" | "OFP_NO_BUFFER") => {
            NO_BUFFER
        }
        _ => of_key(request, "buffer_id", NO_BUFFER)?,
    };
    flow.buffer_id = Some(buffer).filter(|buffer| *buffer != NO_BUFFER);
    let flags: u16 = of_key(request, "flags", 0)?;
    let features = version.features();
    flow.flags = if features.emergency_flows && flags & EMERGENCY != 0 {
        FlowModFlags(flags & !EMERGENCY) | FlowModFlags::EMERGENCY
    } else {
        FlowModFlags(flags)
    };
    if features.multiple_tables {
        flow.table_id = table(request, 0)?;
        flow.cookie_mask = of_key(request, "cookie_mask", 0)?;
        flow.out_group = group(request, "out_group", FlowMod::ANY_GROUP)?;
    }
    let flow = program.put(flow);
    encoded(|room| flow.encode(version, 0, room))
}

/// Reads the table of a request.
pub(crate) fn table(request: &Value, default: u8) -> Result<u8, OfctlError> {
    let Some(value) = request.get("table_id") else { return Ok(default) };
    let table = TABLES.read("table_id", value)?;
    narrow("table_id", &table.into())
}

/// Reads a group under a key of a request.
pub(crate) fn group(request: &Value, key: &str, default: u32) -> Result<u32, OfctlError> {
    request.get(key).map_or(Ok(default), |value| GROUPS.read(key, value))
}

fn object(what: &str, request: &Value) -> Result<(), OfctlError> {
    if request.is_object() {
        Ok(())
    } else {
        invalid(format!("{what} is a JSON object, not {request}"))
    }
}

/// Makes a group-mod in the switch's version.
///
/// # Errors
/// [`OfctlError`]
pub fn group_mod(
    version: Version,
    request: &Value,
    command: GroupModCommand,
) -> Result<Vec<u8>, OfctlError> {
    object("a group", request)?;
    let kind = match request.get("type").map_or(Some("ALL"), Value::as_str) {
        Some("ALL") => GroupKind::All,
        Some("SELECT") => GroupKind::Select,
        Some("INDIRECT") => GroupKind::Indirect,
        Some("FF") => GroupKind::FastFailover,
        _ => {
            return invalid(
                "type of a group: expected \"ALL\", \"SELECT\", \"INDIRECT\" or \"FF\"",
            );
        }
    };
    let bucket = |value: &Value| {
        let actions = elements("actions", value.get("actions"))?;
        Ok::<_, OfctlError>(Bucket {
            bucket_id: None,
            weight: of_key(value, "weight", 0)?,
            watch_port: port_of_key(value, "watch_port", version)?,
            watch_group: group(value, "watch_group", Bucket::ANY_GROUP)?,
            actions: actions.iter().map(|it| action(it, version)).collect::<Result<_, _>>()?,
        })
    };
    let buckets = elements("buckets", request.get("buckets"))?;
    let buckets = if command == GroupModCommand::Delete { &[] } else { buckets };
    let group = GroupMod {
        command,
        kind,
        group_id: group(request, "group_id", 0)?,
        buckets: buckets.iter().map(bucket).collect::<Result<_, _>>()?,
    };
    encoded(|room| group.encode(version, 0, room))
}

/// Makes a meter-mod in the switch's version.
///
/// # Errors
/// [`OfctlError`]
pub fn meter_mod(
    version: Version,
    request: &Value,
    command: MeterModCommand,
) -> Result<Vec<u8>, OfctlError> {
    object("a meter", request)?;
    let flags = match request.get("flags") {
        Some(Value::Array(flags)) => flags.as_slice(),
        Some(flag) => std::slice::from_ref(flag),
        None => &[],
    };
    let mut bits = MeterFlags(0);
    for flag in flags {
        bits.0 |= match flag.as_str() {
            Some("KBPS") => MeterFlags::KBPS.0,
            Some("PKTPS") => MeterFlags::PKTPS.0,
            Some("BURST") => MeterFlags::BURST.0,
            Some("STATS") => MeterFlags::STATS.0,
            _ => {
                let what = "expected \"KBPS\", \"PKTPS\", \"BURST\" or \"STATS\"";
                return invalid(format!("flag {flag} of a meter: {what}"));
            }
        };
    }
    let band = |value: &Value| {
        let (rate, burst_size) = (of_key(value, "rate", 0)?, of_key(value, "burst_size", 0)?);
        match value.get("type").and_then(Value::as_str) {
            Some("DROP") => Ok(MeterBand::Drop { rate, burst_size }),
            Some("DSCP_REMARK") => {
                let prec_level = of_key(value, "prec_level", 0)?;
                Ok(MeterBand::DscpRemark { rate, burst_size, prec_level })
            }
            _ => invalid(format!("type of the band {value}: expected \"DROP\" or \"DSCP_REMARK\"")),
        }
    };
    let bands = elements("bands", request.get("bands"))?;
    let bands = if command == MeterModCommand::Delete { &[] } else { bands };
    let meter = MeterMod {
        command,
        flags: bits,
        meter_id: request.get("meter_id").map_or(Ok(0), |it| METERS.read("meter_id", it))?,
        bands: bands.iter().map(band).collect::<Result<_, _>>()?,
    };
    encoded(|room| meter.encode(version, 0, room))
}

/// Makes a port-mod in the switch's version.
///
/// # Errors
/// [`OfctlError`]
pub fn port_mod(version: Version, request: &Value, now: PortNow) -> Result<Vec<u8>, OfctlError> {
    object("a port", request)?;
    let Some(number) = request.get("port_no") else { return invalid("port_no is missing") };
    let port_no = port("port_no", number, version)?;
    let hw_addr = match request.get("hw_addr") {
        None => now.hw_addr,
        Some(address) => matching::address("hw_addr", address)?.value,
    };
    let (config, mask) = (of_key(request, "config", 0)?, of_key(request, "mask", 0)?);
    let advertise = of_key(request, "advertise", now.advertised)?;
    let bits = [config, mask, advertise];
    encoded(|room| PortMod::encode_bits((port_no, hw_addr), bits, version, 0, room))
}

#[cfg(test)]
mod tests {
    use openflow::{PortConfig, PortNo};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn flow_has_everything_that_was_stated() {
        let request = json!({
            "dpid": 1, "cookie": 1, "cookie_mask": "0x1", "table_id": 2, "idle_timeout": 30,
            "hard_timeout": 40, "priority": 11111, "flags": 1, "buffer_id": "OFP_NO_BUFFER",
            "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]
        });
        let message = flow_mod(Version::V1_3, &request, FlowModCommand::Add).unwrap();
        let flow = FlowMod::decode(&message).unwrap();
        let expected = FlowMod::add(Match::new().in_port(PortNo(1))).table(2).priority(11_111);
        let expected = expected.idle_timeout(30).hard_timeout(40).only_cookie(1, 1);
        let expected = expected.flags(FlowModFlags::SEND_FLOW_REM);
        assert_eq!(FlowMod { instructions: flow.instructions, ..expected }, flow);
    }

    #[test]
    fn defaults_are_those_of_the_version() {
        let flow = |version| {
            let message = flow_mod(version, &json!({}), FlowModCommand::Delete).unwrap();
            let flow = FlowMod::decode(&message).unwrap();
            (flow.priority, flow.out_port, flow.buffer_id, flow.table_id)
        };
        assert_eq!(flow(Version::V1_3), (0, PortNo::ANY, None, 0));
        assert_eq!(flow(Version::V1_0), (0x8000, PortNo::ANY, None, 0));
    }

    #[test]
    fn groups_and_meters_are_read() {
        let request = json!({"group_id": 1, "type": "SELECT", "buckets": [
            {"weight": 3, "watch_port": 1, "actions": [{"type": "OUTPUT", "port": 1}]}]});
        let group = GroupMod::decode(
            &group_mod(Version::PREFERRED, &request, GroupModCommand::Add).unwrap(),
        )
        .unwrap();
        assert_eq!((group.group_id, group.kind), (1, GroupKind::Select));
        assert_eq!((group.buckets[0].weight, group.buckets[0].watch_port), (3, PortNo(1)));
        let request = json!({"flags": "KBPS", "meter_id": 1,
                             "bands": [{"type": "DROP", "rate": 1000, "burst_size": 7}]});
        let meter = MeterMod::decode(
            &meter_mod(Version::PREFERRED, &request, MeterModCommand::Add).unwrap(),
        )
        .unwrap();
        assert_eq!((meter.meter_id, meter.flags), (1, MeterFlags::KBPS));
        assert_eq!(meter.bands, [MeterBand::Drop { rate: 1000, burst_size: 7 }]);
        assert!(
            meter_mod(Version::PREFERRED, &json!({"flags": ["FAST"]}), MeterModCommand::Add)
                .is_err()
        );
        assert!(
            group_mod(Version::PREFERRED, &json!({"type": "SOME"}), GroupModCommand::Add).is_err()
        );
    }

    #[test]
    fn port_that_says_nothing_keeps_its_address_and_features() {
        let now = PortNow { hw_addr: MacAddr([2, 0, 0, 0, 0, 1]), advertised: 0x40 };
        let request = json!({"dpid": 1, "port_no": 1, "config": 101, "mask": 101});
        for version in Version::ALL.iter().copied() {
            let port = PortMod::decode(&port_mod(version, &request, now).unwrap()).unwrap();
            assert_eq!((port.port_no, port.hw_addr), (PortNo(1), now.hw_addr));
            assert_eq!((port.config, port.mask), (PortConfig(101), PortConfig(101)));
        }
        assert!(port_mod(Version::V1_3, &json!({}), now).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop_oneof![
            Just("match"),
            Just("actions"),
            Just("type"),
            Just("port"),
            Just("dl_type"),
            Just("cookie"),
            Just("ipv4_src"),
            Just("eth_dst"),
            Just("vlan_vid"),
            Just("table_id"),
            Just("buckets"),
            Just("bands"),
            Just("flags"),
            Just("port_no"),
            Just("priority"),
            Just("out_port"),
        ];
        let leaf = prop_oneof![
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[A-Z_]{0,12}|[0-9a-f:./x]{0,20}|\\PC{0,6}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 40, 8, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((key.clone(), inner), 0..8).prop_map(|pairs| {
                    Value::Object(pairs.into_iter().map(|(key, it)| (key.to_owned(), it)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_request_is_refused_or_makes_a_message(request in any_json()) {
            let now = PortNow { hw_addr: MacAddr([2; 6]), advertised: 0 };
            for version in Version::ALL.iter().copied() {
                if let Ok(message) = flow_mod(version, &request, FlowModCommand::Add) {
                    prop_assert!(FlowMod::decode(&message).is_ok());
                }
                let _ = port_mod(version, &request, now);
            }
            let _ = group_mod(Version::PREFERRED, &request, GroupModCommand::Modify);
            let _ = meter_mod(Version::PREFERRED, &request, MeterModCommand::Modify);
        }
    }
}
