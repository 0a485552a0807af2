//! The services `operator` and `ofctl`: changes of flows, groups, meters and ports that people request, and statistics of
//! switches. Only Rosemary's own programs are clients; no app may name these services.
//!
//! The app that provides the service owns the entries: it has a number, a priority band and a range of groups and meters, as
//! each app, and its messages pass the same checks. A change is an OpenFlow message without a transaction id.
//!
//! A request, and an answer:
//!
//! ```text
//! change    1 u8 | dpid u64 | OpenFlow message: flow-mod, group-mod, meter-mod or port-mod
//! ask       2 u8 | dpid u64 | OpenFlow message: multipart, queue configuration or configuration request
//! numbers   3 u8
//!
//! done      0 u8 | priority on the switch u16, 0 if there is none
//! later     1 u8 | text
//! messages  2 u8 | a part of the OpenFlow messages of a reply, one behind the other
//! numbers   3 u8 | lowest u16 | highest u16 | first group u32 | last u32 | first meter u32 | last u32 |
//!             count u16 | count pairs: requested priority u16, priority on the switch u16
//! refused   10 and above, u8: the number of a `Refused` | text
//! ```

use thiserror::Error;

use super::MAX_MESSAGE;
use super::wire::{Reader, Writer};

/// Most bytes of a reply's messages in one answer.
pub const MOST_BYTES: usize = MAX_MESSAGE - 1;

/// A request to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Changes a switch. Answered by [`Answer::Done`], [`Answer::Later`] or [`Answer::Refused`].
    Change {
        /// The switch.
        dpid: u64,
        /// The OpenFlow message.
        message: &'a [u8],
    },
    /// Asks a switch. Answered by [`Answer::Messages`], several of them if more follow, or by [`Answer::Refused`].
    Ask {
        /// The switch.
        dpid: u64,
        /// The OpenFlow message.
        message: &'a [u8],
    },
    /// Asks for the owner's numbers on switches. Answered by [`Answer::Numbers`].
    Numbers,
}

/// Why a request was refused; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refused {
    /// The request or its OpenFlow message is malformed, or of a kind that the owner does not send.
    #[error("malformed request")]
    Malformed = 10,
    /// The client is not one of Rosemary's own programs.
    #[error("only operators may use this service")]
    NotGranted = 11,
    /// The switch is not connected.
    #[error("the switch is not connected")]
    NoSwitch = 12,
    /// The owner or the kernel does not allow it.
    #[error("not allowed")]
    Rule = 13,
    /// The switch refused it.
    #[error("the switch refused it")]
    Switch = 14,
    /// The switch did not answer in time, or the owner is not ready.
    #[error("not available")]
    Unavailable = 15,
    /// The switch's answer is malformed, or of another type than the request.
    #[error("malformed answer")]
    BadReply = 16,
}

impl Refused {
    /// Returns the refusal with this number.
    fn from_number(number: u8) -> Option<Self> {
        let all = [
            Self::Malformed,
            Self::NotGranted,
            Self::NoSwitch,
            Self::Rule,
            Self::Switch,
            Self::Unavailable,
            Self::BadReply,
        ];
        all.into_iter().find(|it| *it as u8 == number)
    }
}

/// The numbers of an owner on switches; both ends of each range are included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Priorities.
    pub priorities: (u16, u16),
    /// Groups; an owner counts its groups from 0.
    pub groups: (u32, u32),
    /// Meters; an owner counts its meters from 0.
    pub meters: (u32, u32),
    /// The priority on the switch for each priority that was requested, if the owner assigns them.
    pub assigned: Vec<(u16, u16)>,
}

/// An answer of the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The change is in the switch and in the storage.
    Done {
        /// The flow's priority on the switch; `None` if the change was not about one priority.
        priority: Option<u16>,
    },
    /// The change is kept, and the switch gets it later.
    Later {
        /// The reason, as a phrase.
        why: String,
    },
    /// A part of the OpenFlow messages of a reply.
    Messages(Vec<u8>),
    /// The owner's numbers.
    Numbers(Numbers),
    /// Nothing was done.
    Refused {
        /// The kind of the refusal.
        refused: Refused,
        /// The reason, as a phrase that says what to do.
        why: String,
    },
}

impl<'a> Request<'a> {
    /// Encodes the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Change { dpid, message } => out.u8(1).u64(*dpid).0.extend_from_slice(message),
            Self::Ask { dpid, message } => out.u8(2).u64(*dpid).0.extend_from_slice(message),
            Self::Numbers => drop(out.u8(3)),
        }
        out.0
    }

    /// Decodes a request; `None` if it is malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        match from.u8()? {
            1 => Some(Self::Change { dpid: from.u64()?, message: from.0 }),
            2 => Some(Self::Ask { dpid: from.u64()?, message: from.0 }),
            3 => from.end().map(|()| Self::Numbers),
            _ => None,
        }
    }
}

impl Answer {
    /// Encodes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Done { priority } => drop(out.u8(0).u16(priority.unwrap_or(0))),
            Self::Later { why } => out.u8(1).0.extend_from_slice(why.as_bytes()),
            Self::Messages(bytes) => out.u8(2).0.extend_from_slice(bytes),
            Self::Numbers(numbers) => numbers.write(out.u8(3)),
            Self::Refused { refused, why } => {
                out.u8(*refused as u8).0.extend_from_slice(why.as_bytes());
            }
        }
        out.0.truncate(MAX_MESSAGE);
        out.0
    }

    /// Decodes an answer; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let number = from.u8()?;
        let text = |from: Reader<'_>| String::from_utf8_lossy(from.0).into_owned();
        Some(match number {
            0 => {
                let priority = Some(from.u16()?).filter(|priority| *priority != 0);
                from.end()?;
                Self::Done { priority }
            }
            1 => Self::Later { why: text(from) },
            2 => Self::Messages(from.0.to_vec()),
            3 => Self::Numbers(Numbers::read(from)?),
            other => Self::Refused { refused: Refused::from_number(other)?, why: text(from) },
        })
    }
}

impl Numbers {
    fn write(&self, out: &mut Writer) {
        out.u16(self.priorities.0).u16(self.priorities.1);
        for number in [self.groups.0, self.groups.1, self.meters.0, self.meters.1] {
            out.0.extend(number.to_le_bytes());
        }
        out.u16(u16::try_from(self.assigned.len()).unwrap_or(u16::MAX));
        for (requested, assigned) in self.assigned.iter().take(u16::MAX.into()) {
            out.u16(*requested).u16(*assigned);
        }
    }

    fn read(mut from: Reader<'_>) -> Option<Self> {
        let priorities = (from.u16()?, from.u16()?);
        let (groups, meters) = ((from.u32()?, from.u32()?), (from.u32()?, from.u32()?));
        let count = from.u16()?;
        let pairs = (0..count).map(|_| Some((from.u16()?, from.u16()?)));
        let assigned = pairs.collect::<Option<Vec<_>>>()?;
        from.end()?;
        Some(Self { priorities, groups, meters, assigned })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_and_malformed_ones_are_refused() {
        let message = &[4, 14, 0, 8][..];
        for request in [
            Request::Change { dpid: 7, message },
            Request::Ask { dpid: u64::MAX, message: &[] },
            Request::Numbers,
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for bytes in [&[][..], &[0], &[1, 0, 0], &[3, 0], &[9]] {
            assert_eq!(Request::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn answers_survive() {
        let numbers = Numbers {
            priorities: (49_152, 49_535),
            groups: (0x7_0000, 0x7_ffff),
            meters: (7, 8),
            assigned: vec![(11_111, 49_200), (65_535, 49_535)],
        };
        let why = "it is full".to_owned();
        for answer in [
            Answer::Done { priority: None },
            Answer::Done { priority: Some(9) },
            Answer::Later { why: why.clone() },
            Answer::Messages(vec![1, 2]),
            Answer::Numbers(numbers),
            Answer::Refused { refused: Refused::Switch, why },
        ] {
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Some(answer));
        }
        for bytes in [&[][..], &[0], &[0, 1, 2, 3], &[3, 0], &[9], &[200]] {
            assert_eq!(Answer::decode(bytes), None, "{bytes:?}");
        }
    }
}
