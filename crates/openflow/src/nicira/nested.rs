//! Lists of actions inside of an action, in the format of the message's version.

use super::action_within;
use super::fault::Fault;
use crate::v1_3::convert::read_action;
use crate::wire::{List, WireFormat};
use crate::{Action, EncodeError, Reader, Version, append, v1_0, v1_3};

/// Reads the actions that fill `bytes`; `depth` is how many may be inside of each other.
pub(super) fn read(version: Version, bytes: &[u8], depth: usize) -> Result<Vec<Action>, Fault> {
    let Some(depth) = depth.checked_sub(1) else { return Err(Fault("actions less deep")) };
    match version {
        Version::V1_0 => Ok(list::<v1_0::Action<'_>>(bytes)?
            .iter()
            .map(|action| match action {
                v1_0::Action::Vendor(it) => action_within(version, it.vendor, it.data, depth),
                other => v1_0::convert::read_action(&other),
            })
            .collect()),
        Version::V1_1 => later::<2>(version, bytes, depth),
        Version::V1_2 => later::<3>(version, bytes, depth),
        Version::V1_3 => later::<4>(version, bytes, depth),
        Version::V1_4 => later::<5>(version, bytes, depth),
        Version::V1_5 => later::<6>(version, bytes, depth),
    }
}

fn list<'a, T: WireFormat<'a>>(bytes: &'a [u8]) -> Result<List<'a, T>, Fault> {
    List::read(&mut Reader::new(bytes, 0), "action").map_err(|_| Fault("valid actions in it"))
}

fn later<const V: u8>(version: Version, bytes: &[u8], depth: usize) -> Result<Vec<Action>, Fault> {
    let convert = |action: v1_3::action::Action<'_, V>| match action {
        v1_3::action::Action::Experimenter(it) => {
            action_within(version, it.experimenter, it.data, depth)
        }
        other => read_action(&other),
    };
    Ok(list::<v1_3::action::Action<'_, V>>(bytes)?.iter().map(convert).collect())
}

/// Appends actions to an action, which is checked when it is whole.
///
/// # Errors
/// Like [`Action::write`](crate::Action).
pub(super) fn write(
    version: Version,
    actions: &[Action],
    to: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    for action in actions {
        // Only a writer that finishes a message reports that its room is too small.
        append(to, |room| {
            let size = room.len();
            let mut writer = crate::Writer::new(room);
            match action {
                Action::Nicira(nicira) => nicira.write_nested(version, &mut writer)?,
                other => other.write(version, &mut writer)?,
            }
            let need = writer.position();
            if need > size { Err(EncodeError::NoRoom { need, size }) } else { Ok(need) }
        })?;
    }
    Ok(())
}
