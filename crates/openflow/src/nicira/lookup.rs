//! Actions about the tables of the switch and about the flow itself.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1. Ports have 16 bits in every version, as in OpenFlow 1.0.
//!
//! ```text
//!  resubmit 1           2 in_port   4 padding (4)
//!  note 8               2 data up to the end: 6 bytes, or 8 more, ...
//!  resubmit_table 14    2 in_port   4 table    5 padding (3)
//!  resubmit_table 44    the same, with the addresses of the tracked connection
//!  exit 17              2 padding (6)
//!  fin_timeout 19       2 idle      4 hard     6 padding (2)
//!  write_metadata 22    2 padding (6)          8 value      16 mask
//!  conjunction 34       2 clause    3 n_clauses             4 id
//! ```

use super::NiciraAction as Action;
use super::body::Body;
use super::fault::Fault;
use crate::PortNo;
use crate::v1_0::{port_from_wire, port_to_wire};

pub(super) fn read(subtype: u16, mut from: Body<'_>) -> Result<Action, Fault> {
    let action = match subtype {
        1 => {
            let in_port = port_from_wire(from.u16()?);
            from.zeros(4)?;
            Action::Resubmit { in_port }
        }
        8 => Action::Note(std::mem::take(&mut from.0).into()),
        14 | 44 => {
            let (in_port, table) = (port_from_wire(from.u16()?), from.u8()?);
            from.zeros(3)?;
            Action::ResubmitTable { in_port, table, ct: subtype == 44 }
        }
        17 => {
            from.zeros(6)?;
            Action::Exit
        }
        19 => {
            let (idle, hard) = (from.u16()?, from.u16()?);
            from.zeros(2)?;
            Action::FinTimeout { idle, hard }
        }
        22 => {
            from.zeros(6)?;
            let (value, mask) = (from.u64()?, from.u64()?);
            if value & !mask != 0 {
                return Err(Fault("a value in its mask"));
            }
            Action::WriteMetadata { value, mask }
        }
        _ => {
            let (clause, n_clauses, id) = (from.u8()?, from.u8()?, from.u32()?);
            if !(2..=64).contains(&n_clauses) || clause >= n_clauses {
                return Err(Fault("a clause below the number of clauses, which is 2 to 64"));
            }
            Action::Conjunction { clause, n_clauses, id }
        }
    };
    from.end(1)?;
    Ok(action)
}

/// Returns the 16 bits of a port. A port that they cannot express becomes 0, and the check of the whole action finds it.
pub(super) fn port(port: PortNo) -> u16 {
    port_to_wire(port).unwrap_or(0)
}

/// Writes an action of this file. Returns `false` for another one.
pub(super) fn write(action: &Action, to: &mut Vec<u8>) -> bool {
    let begin = |to: &mut Vec<u8>, subtype: u16| to.extend(subtype.to_be_bytes());
    match action {
        Action::Resubmit { in_port } => {
            begin(to, 1);
            to.extend(port(*in_port).to_be_bytes());
        }
        Action::Note(data) => {
            begin(to, 8);
            to.extend_from_slice(data);
        }
        Action::ResubmitTable { in_port, table, ct } => {
            begin(to, if *ct { 44 } else { 14 });
            to.extend(port(*in_port).to_be_bytes());
            to.push(*table);
        }
        Action::Exit => begin(to, 17),
        Action::FinTimeout { idle, hard } => {
            begin(to, 19);
            to.extend(idle.to_be_bytes());
            to.extend(hard.to_be_bytes());
        }
        Action::WriteMetadata { value, mask } => {
            begin(to, 22);
            to.extend([0; 6]);
            to.extend(value.to_be_bytes());
            to.extend(mask.to_be_bytes());
        }
        Action::Conjunction { clause, n_clauses, id } => {
            begin(to, 34);
            to.extend([*clause, *n_clauses]);
            to.extend(id.to_be_bytes());
        }
        _ => return false,
    }
    true
}
