//! Reads numbers in the forms that Ryu accepts, and writes reserved numbers by their names.
//!
//! A number is a JSON integer or a string as Python's `int(text, 0)` takes it: `10`, `"10"`, `"0xa"`. A reserved number may be given by
//! its name with or without the prefix of the specification: `"CONTROLLER"`, `"OFPP_CONTROLLER"`.

use std::collections::BTreeMap;

use openflow::{PortNo, Version};
use serde_json::Value;

use crate::{OfctlError, has_old_names, invalid};

/// Names of reserved ports of OpenFlow 1.3; 1.0 has the same ports and `NONE` for `ANY`.
const PORTS: [(&str, PortNo); 9] = [
    ("MAX", PortNo::MAX),
    ("IN_PORT", PortNo::IN_PORT),
    ("TABLE", PortNo::TABLE),
    ("NORMAL", PortNo::NORMAL),
    ("FLOOD", PortNo::FLOOD),
    ("ALL", PortNo::ALL),
    ("CONTROLLER", PortNo::CONTROLLER),
    ("LOCAL", PortNo::LOCAL),
    ("ANY", PortNo::ANY),
];

/// Reserved numbers of one kind.
pub(crate) struct Names {
    prefix: &'static str,
    names: &'static [(&'static str, u32)],
}

pub(crate) const TABLES: Names = Names { prefix: "OFPTT_", names: &[("MAX", 0xfe), ("ALL", 0xff)] };
pub(crate) const GROUPS: Names = Names {
    prefix: "OFPG_",
    names: &[("MAX", 0xffff_ff00), ("ALL", 0xffff_fffc), ("ANY", 0xffff_ffff)],
};
pub(crate) const METERS: Names = Names {
    prefix: "OFPM_",
    names: &[
        ("MAX", 0xffff_0000),
        ("SLOWPATH", 0xffff_fffd),
        ("CONTROLLER", 0xffff_fffe),
        ("ALL", 0xffff_ffff),
    ],
};
pub(crate) const QUEUES: Names = Names { prefix: "OFPQ_", names: &[("ALL", 0xffff_ffff)] };
pub(crate) const LENGTHS: Names =
    Names { prefix: "OFPCML_", names: &[("MAX", 0xffe5), ("NO_BUFFER", 0xffff)] };

/// The numbers of an owner of flows on switches, for output in its own numbers; both ends of each range are included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// The requested priority of each priority on the switch.
    pub priorities: BTreeMap<u16, u16>,
    /// Its groups, which it counts from 0.
    pub groups: (u32, u32),
    /// Its meters, which it counts from 0.
    pub meters: (u32, u32),
}

impl Own {
    /// Returns the requested priority; that on the switch if it is not the owner's.
    pub(crate) fn priority(&self, on_switch: u16) -> u16 {
        self.priorities.get(&on_switch).copied().unwrap_or(on_switch)
    }

    /// Returns the owner's number of a group; that on the switch if it is not the owner's.
    pub(crate) fn group(&self, on_switch: u32) -> u32 {
        own(self.groups, on_switch)
    }

    /// Returns the owner's number of a meter; that on the switch if it is not the owner's.
    pub(crate) fn meter(&self, on_switch: u32) -> u32 {
        own(self.meters, on_switch)
    }
}

fn own((first, last): (u32, u32), on_switch: u32) -> u32 {
    let is_own = (first..=last).contains(&on_switch) && last != 0;
    if is_own { on_switch - first } else { on_switch }
}

impl Names {
    /// Reads a number or a name.
    pub(crate) fn read(&self, what: &str, value: &Value) -> Result<u32, OfctlError> {
        if let Some(text) = value.as_str() {
            let name = text.to_ascii_uppercase();
            let name = name.strip_prefix(self.prefix).unwrap_or(&name);
            if let Some((_, number)) = self.names.iter().find(|(it, _)| *it == name) {
                return Ok(*number);
            }
        }
        narrow(what, value)
    }

    /// Writes a number, or the name of a reserved one.
    pub(crate) fn write(&self, number: u32) -> Value {
        match self.names.iter().find(|(_, it)| *it == number) {
            Some((name, _)) => Value::from(*name),
            None => Value::from(number),
        }
    }
}

/// Reads an integer of a form that Python's `int(str(value), 0)` takes.
///
/// # Errors
/// [`OfctlError::Invalid`]; `what` names the value.
pub fn integer(what: &str, value: &Value) -> Result<u64, OfctlError> {
    let parsed = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => parse(text.trim()),
        _ => None,
    };
    match parsed {
        Some(number) => Ok(number),
        None => invalid(format!("{what} is {value}; expected an integer such as 10 or \"0xa\"")),
    }
}

fn parse(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_plain { u64::from_str_radix(text, radix).ok() } else { None }
    };
    let lower = text.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = lower.strip_prefix(prefix) {
            return digits(rest, radix);
        }
    }
    let has_leading_zero = lower.starts_with('0') && lower.bytes().any(|byte| byte != b'0');
    if has_leading_zero { None } else { digits(&lower, 10) }
}

/// Reads an integer of a narrower type.
pub(crate) fn narrow<T: TryFrom<u64>>(what: &str, value: &Value) -> Result<T, OfctlError> {
    let number = integer(what, value)?;
    T::try_from(number).or_else(|_| {
        invalid(format!("{what} is {number}; expected at most {} bits", 8 * size_of::<T>()))
    })
}

/// Reads the integer under a key of an object, or returns the default.
pub(crate) fn of_key<T: TryFrom<u64>>(
    object: &Value,
    key: &str,
    default: T,
) -> Result<T, OfctlError> {
    object.get(key).map_or(Ok(default), |value| narrow(key, value))
}

/// Reads a port, by its number or its name.
///
/// # Errors
/// [`OfctlError::Invalid`]; `what` names the value.
pub fn port(what: &str, value: &Value, version: Version) -> Result<PortNo, OfctlError> {
    if let Some(text) = value.as_str() {
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("OFPP_").unwrap_or(&name);
        let name = if name == "NONE" { "ANY" } else { name };
        if let Some((_, port)) = PORTS.iter().find(|(it, _)| *it == name) {
            return Ok(*port);
        }
    }
    if version.features().wide_ports {
        narrow(what, value).map(PortNo)
    } else {
        narrow(what, value).map(openflow::v1_0::port_from_wire)
    }
}

/// Reads the port under a key of an object, or returns [`PortNo::ANY`].
pub(crate) fn port_of_key(
    object: &Value,
    key: &str,
    version: Version,
) -> Result<PortNo, OfctlError> {
    object.get(key).map_or(Ok(PortNo::ANY), |value| port(key, value, version))
}

/// Writes a port: its number, or the name of a reserved one.
pub(crate) fn port_json(port: PortNo, version: Version) -> Value {
    match PORTS.iter().find(|(_, it)| *it == port) {
        Some(("ANY", _)) if has_old_names(version) => Value::from("NONE"),
        Some((name, _)) => Value::from(*name),
        None => Value::from(port_number(port, version)),
    }
}

/// Writes a port as a number.
pub(crate) fn port_number(port: PortNo, version: Version) -> u32 {
    if version.features().wide_ports {
        port.0
    } else {
        openflow::v1_0::port_to_wire(port).map_or(port.0, u32::from)
    }
}

/// The text of a value that is a number or a name.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_have_the_forms_of_python() {
        for (value, number) in [
            (json!(10), Some(10)),
            (json!("10"), Some(10)),
            (json!("0x1F"), Some(31)),
            (json!("0b11"), Some(3)),
            (json!("0"), Some(0)),
            (json!("010"), None),
            (json!(-1), None),
            (json!(1.5), None),
            (json!("+1"), None),
            (json!(""), None),
            (json!("0x"), None),
            (json!(true), None),
            (json!(null), None),
            (json!("99999999999999999999"), None),
        ] {
            assert_eq!(integer("it", &value).ok(), number, "{value}");
        }
    }

    #[test]
    fn reserved_numbers_have_names() {
        let read = |text: &str| port("port", &json!(text), Version::V1_3);
        assert_eq!(read("OFPP_CONTROLLER"), Ok(PortNo::CONTROLLER));
        assert_eq!(read("local"), Ok(PortNo::LOCAL));
        assert!(read("nowhere").is_err());
        assert_eq!(port("port", &json!(0xfffe), Version::V1_0), Ok(PortNo::LOCAL));
        assert_eq!(port_json(PortNo::LOCAL, Version::V1_0), json!("LOCAL"));
        assert_eq!(port_json(PortNo::ANY, Version::V1_0), json!("NONE"));
        assert_eq!(port_json(PortNo(3), Version::V1_3), json!(3));
        assert_eq!(TABLES.read("table_id", &json!("ALL")), Ok(0xff));
        assert_eq!(GROUPS.write(0xffff_ffff), json!("ANY"));
    }

    #[test]
    fn own_numbers_are_shown_as_requested() {
        let own = Own {
            priorities: [(49_200, 11_111)].into(),
            groups: (0x7_0000, 0x7_ffff),
            ..Own::default()
        };
        assert_eq!((own.priority(49_200), own.priority(5)), (11_111, 5));
        assert_eq!((own.group(0x7_0001), own.group(0x8_0001)), (1, 0x8_0001));
        assert_eq!(own.meter(0), 0);
    }
}
