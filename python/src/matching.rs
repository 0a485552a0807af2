//! `Match`: conditions on packets, from keyword arguments.
//!
//! A value is a number, text (`"10.0.0.0/8"`, `"02:00:00:00:00:01"`), bytes, or a pair of a value and a mask.

use std::fmt::Display;
use std::net::IpAddr;

use openflow::matching::VLAN_PRESENT;
use openflow::nicira::FieldId;
use openflow::oxm::{OPENFLOW_BASIC, Oxm};
use openflow::{Field, MacAddr};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// The number of `vlan_vid`.
const VLAN_VID: u8 = 6;

/// A condition on packets: every field must match.
///
/// `Match(in_port=1, eth_type=0x0800, ipv4_dst="10.0.0.0/8", vlan_vid=7)`. `vlan_vid` is an id of 12 bits, or `None` for
/// packets without a tag. Fields of Open vSwitch have its names: `Match(reg0=5, ct_state=(0x20, 0x20))`.
#[pyclass(frozen, eq, hash, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Match(pub(crate) openflow::Match);

#[pymethods]
impl Match {
    #[new]
    #[pyo3(signature = (**fields))]
    fn new(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut matching = openflow::Match::new();
        for (name, value) in fields.into_iter().flatten() {
            matching.set(&field(&name.extract::<String>()?, &value)?);
        }
        Ok(Self(matching))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Match({})", self.0)
    }
}

/// Returns an Ethernet address as 6 bytes.
pub(crate) fn mac_bytes(py: Python<'_>, address: MacAddr) -> Py<PyBytes> {
    PyBytes::new(py, &address.0).unbind()
}

/// Makes a field of its name and its value.
pub(crate) fn field(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Field> {
    let unknown = || PyValueError::new_err(format!("{name:?} is no field of a match"));
    let Some(number) = Field::number_of(name) else { return nicira_field(name, value) };
    let size = openflow::oxm::basic_size(number).ok_or_else(unknown)?;
    let wrong = |why: &dyn Display| PyValueError::new_err(format!("{name}: {why}"));
    let (value, mask) = match value.cast::<PyTuple>() {
        Ok(pair) => {
            let (value, mask) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            (bytes(&value, size).map_err(|it| wrong(&it))?.0, Some(bytes(&mask, size)?.0))
        }
        Err(_) if value.is_none() && number == VLAN_VID => (vec![0, 0], None),
        Err(_) => bytes(value, size).map_err(|it| wrong(&it))?,
    };
    let mut payload = value;
    if number == VLAN_VID && mask.is_none() && payload != [0, 0] {
        payload[0] |= VLAN_PRESENT.to_be_bytes()[0];
    }
    let has_mask = mask.is_some();
    payload.extend(mask.unwrap_or_default());
    let oxm = Oxm { class: OPENFLOW_BASIC, field: number, has_mask, payload: &payload };
    Ok(Field::from_oxm(&oxm))
}

/// Makes a field of Open vSwitch of its name and its value.
fn nicira_field(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Field> {
    let wrong = |why: &dyn Display| PyValueError::new_err(format!("{name}: {why}"));
    let field = FieldId::by_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("{name:?} is no field of a match")))?;
    let size = usize::from(field.bits().div_ceil(8)).min(size_of::<u128>());
    let number =
        |bytes: &[u8]| bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let (value, mask) = match value.cast::<PyTuple>() {
        Ok(pair) => {
            let (value, mask) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            (bytes(&value, size).map_err(|it| wrong(&it))?.0, Some(bytes(&mask, size)?.0))
        }
        Err(_) => bytes(value, size).map_err(|it| wrong(&it))?,
    };
    let mask = mask.as_deref().map(number);
    field.with_value(number(&value), mask).map_err(|fault| wrong(&fault))
}

/// A value and a mask, as big-endian bytes.
type ValueAndMask = (Vec<u8>, Option<Vec<u8>>);

/// Converts a value to `size` bytes.
fn bytes(value: &Bound<'_, PyAny>, size: usize) -> PyResult<ValueAndMask> {
    let fits = |found: usize| {
        if found == size {
            Ok(())
        } else {
            Err(PyValueError::new_err(format!("it has {found} bytes instead of {size}")))
        }
    };
    if let Ok(raw) = value.cast::<PyBytes>() {
        fits(raw.as_bytes().len())?;
        return Ok((raw.as_bytes().to_vec(), None));
    }
    if let Ok(text) = value.extract::<String>() {
        let (value, mask) = text.split_once('/').map_or((&*text, None), |(a, b)| (a, Some(b)));
        let value = address(value)?;
        fits(value.len())?;
        let mask = mask.map(|mask| mask_of(mask, size)).transpose()?;
        return Ok((value, mask));
    }
    if let Ok(number) = value.extract::<u128>() {
        let all = number.to_be_bytes();
        let (high, low) = all.split_at(all.len() - size);
        if high.iter().any(|byte| *byte != 0) {
            return Err(PyValueError::new_err(format!("{number} does not fit in {size} bytes")));
        }
        return Ok((low.to_vec(), None));
    }
    Err(PyTypeError::new_err("a value is a number, text, bytes, or a pair of a value and a mask"))
}

/// Reads the text of an address.
fn address(text: &str) -> PyResult<Vec<u8>> {
    if let Ok(mac) = text.parse::<MacAddr>() {
        return Ok(mac.0.to_vec());
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(it)) => Ok(it.octets().to_vec()),
        Ok(IpAddr::V6(it)) => Ok(it.octets().to_vec()),
        Err(_) => Err(PyValueError::new_err(format!("{text:?} is no address"))),
    }
}

/// Reads a mask: a number of bits, or an address.
fn mask_of(text: &str, size: usize) -> PyResult<Vec<u8>> {
    let bits = size * 8;
    match text.parse::<usize>() {
        Ok(length) if length <= bits && matches!(size, 4 | 16) => {
            let ones = |bits: u32| if bits == 0 { 0 } else { u128::MAX << (128 - bits) };
            let all = ones(u32::try_from(length).unwrap_or_default()).to_be_bytes();
            Ok(all[..size].to_vec())
        }
        Ok(length) => Err(PyValueError::new_err(format!("/{length} is no prefix of {bits} bits"))),
        Err(_) => {
            let mask = address(text)?;
            if mask.len() == size {
                Ok(mask)
            } else {
                Err(PyValueError::new_err(format!("{text:?} is no mask of {size} bytes")))
            }
        }
    }
}
