//! Meters: their bands, and the meter-mod of a call's arguments. Only `OpenFlow` 1.3 has meters.

use openflow::{MeterFlags, MeterMod, MeterModCommand};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::network::{COMMANDS, unknown_word};

/// A band of a meter: what happens to packets above a rate, which is in kbit/s or in packets per second.
#[pyclass(frozen, eq, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MeterBand(openflow::MeterBand);

#[pymethods]
impl MeterBand {
    /// Drops the packets. `burst_size` is in kbit or packets.
    #[staticmethod]
    #[pyo3(signature = (rate, burst_size = 0))]
    fn drop(rate: u32, burst_size: u32) -> Self {
        Self(openflow::MeterBand::Drop { rate, burst_size })
    }

    /// Raises the packets' drop precedence by a number of levels.
    #[staticmethod]
    #[pyo3(signature = (rate, prec_level, burst_size = 0))]
    fn dscp_remark(rate: u32, prec_level: u8, burst_size: u32) -> Self {
        Self(openflow::MeterBand::DscpRemark { rate, burst_size, prec_level })
    }

    fn __repr__(&self) -> String {
        match &self.0 {
            openflow::MeterBand::DscpRemark { rate, burst_size, prec_level } => format!(
                "MeterBand.dscp_remark({rate}, prec_level={prec_level}, burst_size={burst_size})"
            ),
            openflow::MeterBand::Drop { rate, burst_size } => {
                format!("MeterBand.drop({rate}, burst_size={burst_size})")
            }
            other => format!("{other:?}"),
        }
    }
}

/// The flags of a meter without others.
pub(crate) fn usual_flags() -> Vec<String> {
    vec!["kbps".to_owned()]
}

/// Makes a meter-mod of a call's arguments.
pub(crate) fn meter_mod(
    command: &str,
    meter_id: u32,
    bands: &[PyRef<'_, MeterBand>],
    flags: &[String],
) -> PyResult<MeterMod> {
    let command = match command {
        "add" => MeterModCommand::Add,
        "modify" => MeterModCommand::Modify,
        "delete" => MeterModCommand::Delete,
        other => return Err(unknown_word(other, "command for a meter", COMMANDS)),
    };
    let mut bits = 0;
    for flag in flags {
        bits |= match flag.as_str() {
            "kbps" => MeterFlags::KBPS.0,
            "pktps" => MeterFlags::PKTPS.0,
            "burst" => MeterFlags::BURST.0,
            "stats" => MeterFlags::STATS.0,
            other => {
                return Err(PyValueError::new_err(format!(
                    "{other:?} is no flag of a meter; it has kbps, pktps, burst, stats"
                )));
            }
        };
    }
    let bands = bands.iter().map(|band| band.0.clone()).collect();
    Ok(MeterMod { command, flags: MeterFlags(bits), meter_id, bands })
}

/// Adds the class to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MeterBand>()
}
