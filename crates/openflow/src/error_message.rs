//! Error messages: the rejected request and the reason.
//!
//! OpenFlow 1.3.5 §7 (`ofp_error_msg`), OpenFlow 1.0.2 §5.4.4. The names are those of the
//! specification.

use crate::header::{begin, open};
use crate::{DecodeError, EncodeError, Header, Kind, Version};
use core::fmt;

/// An error message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ErrorMessage<'a> {
    /// The version of the message, which defines the meaning of type and code.
    pub version: Version,
    /// The type: category of the failure.
    pub kind: u16,
    /// The code: the reason.
    pub code: u16,
    /// Usually at least the first 64 bytes of the rejected message; text for hello-failed.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

/// A reason to refuse a flow-mod that every version has, under one name for all versions.
///
/// OpenFlow 1.3.5 §7.5.4.6 (`ofp_flow_mod_failed_code`), OpenFlow 1.0.2 §5.4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowModFailed {
    /// The table has no room for the flow.
    TableFull,
    /// The flow overlaps another one, and the flow-mod asks for a check.
    Overlap,
    /// There is no such table; in OpenFlow 1.0, which names no tables, the request is not supported.
    BadTableId,
}

impl FlowModFailed {
    /// Returns type and code of the error.
    pub fn to_wire(self, version: Version) -> (u16, u16) {
        match (version, self) {
            (Version::V1_0, Self::TableFull) => (3, 0),
            (Version::V1_0, Self::Overlap) => (3, 1),
            (Version::V1_0, Self::BadTableId) => (3, 5),
            (_, Self::TableFull) => (5, 1),
            (_, Self::BadTableId) => (5, 2),
            (_, Self::Overlap) => (5, 3),
        }
    }
}

/// Most characters of an explanation that are shown: a switch chooses it.
const MOST_SHOWN: usize = 400;

/// A type of errors, and its codes indexed by number.
struct Type {
    name: &'static str,
    /// Number of codes in OpenFlow 1.1 to 1.5; 0 if the version lacks the type. No number changes its meaning.
    counts: [usize; Version::COUNT - 1],
    codes: &'static [&'static str],
}

/// Name of a type, and names of its codes indexed by number.
type Names = &'static [(&'static str, &'static [&'static str])];

impl<'a> ErrorMessage<'a> {
    /// Whether the switch refused a message because another controller is its master (`OFPBRC_IS_SLAVE`, OpenFlow 1.3.5
    /// §7.5.4.2).
    pub fn is_of_slave(&self) -> bool {
        const IS_SLAVE: u16 = 10;
        self.version.features().roles && (self.kind, self.code) == (Self::BAD_REQUEST, IS_SLAVE)
    }

    /// Type hello-failed; code 0 means "no version in common". Same in every version.
    pub const HELLO_FAILED: u16 = 0;
    /// Type bad-request. Same in every version.
    pub const BAD_REQUEST: u16 = 1;
    /// Type of experimenter errors; the experimenter defines the code. Not in OpenFlow 1.0.
    pub const EXPERIMENTER: u16 = 0xffff;
    /// The experimenter of errors whose data is a text: a locally administered OUI.
    pub const EXPLAINED: u32 = 0x000e_526f;

    /// Returns the data of an experimenter error that states its reason as text.
    pub fn explained(reason: &str) -> Vec<u8> {
        [&Self::EXPLAINED.to_be_bytes()[..], reason.as_bytes()].concat()
    }

    /// Returns the reason of an error whose data is [`explained`](Self::explained); `None` for all other errors.
    pub fn explanation(&self) -> Option<&'a str> {
        let is_experimenter = self.version != Version::V1_0 && self.kind == Self::EXPERIMENTER;
        let (experimenter, text) = self.data.split_first_chunk().filter(|_| is_experimenter)?;
        let text = core::str::from_utf8(text).ok()?;
        (*experimenter == Self::EXPLAINED.to_be_bytes()).then_some(text)
    }

    /// Decodes a whole error message of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one error message.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, _) = open(message, Kind::Error)?;
        Self::decode_body(version, message)
    }

    /// Decodes the body of a complete error message with any header version. Type and code are
    /// interpreted as in `version`; the layout is the same in all versions.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one message of at least 12 bytes.
    pub fn decode_body(version: Version, message: &'a [u8]) -> Result<Self, DecodeError> {
        let (_, mut body) = Header::split(message)?;
        let kind = body.u16("error_msg.type")?;
        let code = body.u16("error_msg.code")?;
        Ok(Self { version, kind, code, data: body.rest() })
    }

    /// Encodes the message in its version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    pub fn encode(&self, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::Error, self.version, xid, out)?;
        to.u16(self.kind);
        to.u16(self.code);
        to.bytes(self.data);
        to.finish()
    }

    /// Returns the name of the type, if the version defines it.
    pub fn kind_name(&self) -> Option<&'static str> {
        if self.version != Version::V1_0 && self.kind == Self::EXPERIMENTER {
            return Some("EXPERIMENTER");
        }
        self.names().map(|(kind, _)| kind)
    }

    /// Returns the name of the code, if the version defines it.
    pub fn code_name(&self) -> Option<&'static str> {
        self.names().and_then(|(_, codes)| codes.get(usize::from(self.code)).copied())
    }

    /// Returns the name of the type and those of its codes.
    fn names(&self) -> Option<(&'static str, &'static [&'static str])> {
        let kind = usize::from(self.kind);
        let Some(later) = self.version.index().checked_sub(1) else {
            return V1_0.get(kind).copied();
        };
        let Type { name, counts, codes } = SINCE_1_1.get(kind)?;
        let count = counts.get(later).copied().filter(|&count| count > 0)?;
        Some((name, codes.get(..count).unwrap_or(codes)))
    }
}

/// `bad_match/dup_field`, or numbers without names: `type 99/code 7`. An error with an explanation is shown as that.
impl fmt::Display for ErrorMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = self.explanation() {
            let shown: String = reason.chars().take(MOST_SHOWN).collect();
            return write!(f, "`{}`", shown.escape_debug());
        }
        match self.kind_name() {
            Some(kind) => f.write_str(kind)?,
            None => write!(f, "type {}", self.kind)?,
        }
        match self.code_name() {
            Some(code) => write!(f, "/{code}"),
            None => write!(f, "/code {}", self.code),
        }
    }
}

/// OpenFlow 1.0.2 §5.4.4.
const V1_0: Names = &[
    ("HELLO_FAILED", &["INCOMPATIBLE", "EPERM"]),
    (
        "BAD_REQUEST",
        &[
            "BAD_VERSION",
            "BAD_TYPE",
            "BAD_STAT",
            "BAD_VENDOR",
            "BAD_SUBTYPE",
            "EPERM",
            "BAD_LEN",
            "BUFFER_EMPTY",
            "BUFFER_UNKNOWN",
        ],
    ),
    (
        "BAD_ACTION",
        &[
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_VENDOR",
            "BAD_VENDOR_TYPE",
            "BAD_OUT_PORT",
            "BAD_ARGUMENT",
            "EPERM",
            "TOO_MANY",
            "BAD_QUEUE",
        ],
    ),
    (
        "FLOW_MOD_FAILED",
        &["ALL_TABLES_FULL", "OVERLAP", "EPERM", "BAD_EMERG_TIMEOUT", "BAD_COMMAND", "UNSUPPORTED"],
    ),
    ("PORT_MOD_FAILED", &["BAD_PORT", "BAD_HW_ADDR"]),
    ("QUEUE_OP_FAILED", &["BAD_PORT", "BAD_QUEUE", "EPERM"]),
];

/// `ofp_error_type` and the codes of each, indexed by number: OpenFlow 1.1.0 §A.4.4, 1.2 §A.4.4, 1.3.5 §7.4.4, 1.4.1 §7.5.4,
/// 1.5.1 §7.5.4. The names are those of the latest version.
const SINCE_1_1: &[Type] = &[
    Type { name: "HELLO_FAILED", counts: [2, 2, 2, 2, 2], codes: &["INCOMPATIBLE", "EPERM"] },
    Type {
        name: "BAD_REQUEST",
        counts: [10, 13, 14, 16, 19],
        codes: &[
            "BAD_VERSION",
            "BAD_TYPE",
            "BAD_MULTIPART",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "EPERM",
            "BAD_LEN",
            "BUFFER_EMPTY",
            "BUFFER_UNKNOWN",
            "BAD_TABLE_ID",
            "IS_SLAVE",
            "BAD_PORT",
            "BAD_PACKET",
            "MULTIPART_BUFFER_OVERFLOW",
            "MULTIPART_REQUEST_TIMEOUT",
            "MULTIPART_REPLY_TIMEOUT",
            "MULTIPART_BAD_SCHED",
            "PIPELINE_FIELDS_ONLY",
            "UNKNOWN",
        ],
    },
    Type {
        name: "BAD_ACTION",
        counts: [13, 16, 16, 16, 18],
        codes: &[
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "BAD_OUT_PORT",
            "BAD_ARGUMENT",
            "EPERM",
            "TOO_MANY",
            "BAD_QUEUE",
            "BAD_OUT_GROUP",
            "MATCH_INCONSISTENT",
            "UNSUPPORTED_ORDER",
            "BAD_TAG",
            "BAD_SET_TYPE",
            "BAD_SET_LEN",
            "BAD_SET_ARGUMENT",
            "BAD_SET_MASK",
            "BAD_METER",
        ],
    },
    Type {
        name: "BAD_INSTRUCTION",
        counts: [6, 9, 9, 10, 10],
        codes: &[
            "UNKNOWN_INST",
            "UNSUP_INST",
            "BAD_TABLE_ID",
            "UNSUP_METADATA",
            "UNSUP_METADATA_MASK",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "BAD_LEN",
            "EPERM",
            "DUP_INST",
        ],
    },
    Type {
        name: "BAD_MATCH",
        counts: [8, 12, 12, 12, 12],
        codes: &[
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_TAG",
            "BAD_DL_ADDR_MASK",
            "BAD_NW_ADDR_MASK",
            "BAD_WILDCARDS",
            "BAD_FIELD",
            "BAD_VALUE",
            "BAD_MASK",
            "BAD_PREREQ",
            "DUP_FIELD",
            "EPERM",
        ],
    },
    Type {
        name: "FLOW_MOD_FAILED",
        counts: [7, 8, 8, 10, 11],
        codes: &[
            "UNKNOWN",
            "TABLE_FULL",
            "BAD_TABLE_ID",
            "OVERLAP",
            "EPERM",
            "BAD_TIMEOUT",
            "BAD_COMMAND",
            "BAD_FLAGS",
            "CANT_SYNC",
            "BAD_PRIORITY",
            "IS_SYNC",
        ],
    },
    Type {
        name: "GROUP_MOD_FAILED",
        counts: [9, 15, 15, 15, 17],
        codes: &[
            "GROUP_EXISTS",
            "INVALID_GROUP",
            "WEIGHT_UNSUPPORTED",
            "OUT_OF_GROUPS",
            "OUT_OF_BUCKETS",
            "CHAINING_UNSUPPORTED",
            "WATCH_UNSUPPORTED",
            "LOOP",
            "UNKNOWN_GROUP",
            "CHAINED_GROUP",
            "BAD_TYPE",
            "BAD_COMMAND",
            "BAD_BUCKET",
            "BAD_WATCH",
            "EPERM",
            "UNKNOWN_BUCKET",
            "BUCKET_EXISTS",
        ],
    },
    Type {
        name: "PORT_MOD_FAILED",
        counts: [4, 5, 5, 5, 5],
        codes: &["BAD_PORT", "BAD_HW_ADDR", "BAD_CONFIG", "BAD_ADVERTISE", "EPERM"],
    },
    Type {
        name: "TABLE_MOD_FAILED",
        counts: [2, 3, 3, 3, 3],
        codes: &["BAD_TABLE", "BAD_CONFIG", "EPERM"],
    },
    Type {
        name: "QUEUE_OP_FAILED",
        counts: [3, 3, 3, 3, 3],
        codes: &["BAD_PORT", "BAD_QUEUE", "EPERM"],
    },
    Type {
        name: "SWITCH_CONFIG_FAILED",
        counts: [2, 3, 3, 3, 3],
        codes: &["BAD_FLAGS", "BAD_LEN", "EPERM"],
    },
    Type {
        name: "ROLE_REQUEST_FAILED",
        counts: [0, 3, 3, 3, 5],
        codes: &["STALE", "UNSUP", "BAD_ROLE", "ID_UNSUP", "ID_IN_USE"],
    },
    Type {
        name: "METER_MOD_FAILED",
        counts: [0, 0, 12, 12, 12],
        codes: &[
            "UNKNOWN",
            "METER_EXISTS",
            "INVALID_METER",
            "UNKNOWN_METER",
            "BAD_COMMAND",
            "BAD_FLAGS",
            "BAD_RATE",
            "BAD_BURST",
            "BAD_BAND",
            "BAD_BAND_VALUE",
            "OUT_OF_METERS",
            "OUT_OF_BANDS",
        ],
    },
    Type {
        name: "TABLE_FEATURES_FAILED",
        counts: [0, 0, 6, 6, 11],
        codes: &[
            "BAD_TABLE",
            "BAD_METADATA",
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_ARGUMENT",
            "EPERM",
            "BAD_CAP",
            "BAD_MAX_ENT",
            "BAD_FEATURES",
            "BAD_COMMAND",
            "TOO_MANY",
        ],
    },
    Type {
        name: "BAD_PROPERTY",
        counts: [0, 0, 0, 9, 9],
        codes: &[
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_VALUE",
            "TOO_MANY",
            "DUP_TYPE",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "BAD_EXP_VALUE",
            "EPERM",
        ],
    },
    Type {
        name: "ASYNC_CONFIG_FAILED",
        counts: [0, 0, 0, 3, 3],
        codes: &["INVALID", "UNSUPPORTED", "EPERM"],
    },
    Type {
        name: "FLOW_MONITOR_FAILED",
        counts: [0, 0, 0, 8, 8],
        codes: &[
            "UNKNOWN",
            "MONITOR_EXISTS",
            "INVALID_MONITOR",
            "UNKNOWN_MONITOR",
            "BAD_COMMAND",
            "BAD_FLAGS",
            "BAD_TABLE_ID",
            "BAD_OUT",
        ],
    },
    Type {
        name: "BUNDLE_FAILED",
        counts: [0, 0, 0, 16, 19],
        codes: &[
            "UNKNOWN",
            "EPERM",
            "BAD_ID",
            "BUNDLE_EXIST",
            "BUNDLE_CLOSED",
            "OUT_OF_BUNDLES",
            "BAD_TYPE",
            "BAD_FLAGS",
            "MSG_BAD_LEN",
            "MSG_BAD_XID",
            "MSG_UNSUP",
            "MSG_CONFLICT",
            "MSG_TOO_MANY",
            "MSG_FAILED",
            "TIMEOUT",
            "BUNDLE_IN_PROGRESS",
            "SCHED_NOT_SUPPORTED",
            "SCHED_FUTURE",
            "SCHED_PAST",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_type_and_code_of_its_own_version() {
        let bytes = [4, 1, 0, 14, 0, 0, 0, 9, 0, 4, 0, 10, 4, 14];
        let error = ErrorMessage::decode(&bytes).unwrap();
        assert_eq!(error.to_string(), "BAD_MATCH/DUP_FIELD");
        assert_eq!(error.data, [4, 14]);
        let mut out = [0; 14];
        assert_eq!(error.encode(9, &mut out), Ok(14));
        assert_eq!(out, bytes);
        let old = ErrorMessage { version: Version::V1_0, ..error };
        assert_eq!(old.to_string(), "PORT_MOD_FAILED/code 10");
        for (version, expected) in [
            (Version::V1_1, "type 11/code 3"),
            (Version::V1_2, "ROLE_REQUEST_FAILED/code 3"),
            (Version::V1_5, "ROLE_REQUEST_FAILED/ID_UNSUP"),
        ] {
            let error = ErrorMessage { version, kind: 11, code: 3, data: &[] };
            assert_eq!(error.to_string(), expected);
        }
        let other = ErrorMessage { kind: 99, ..old };
        assert_eq!(other.to_string(), "type 99/code 10");
    }

    #[test]
    fn error_cut_anywhere_is_truncated() {
        let bytes = [1, 1, 0, 12, 0, 0, 0, 9, 0, 4, 0, 1];
        for len in 0..bytes.len() {
            assert!(matches!(
                ErrorMessage::decode(&bytes[..len]),
                Err(DecodeError::Truncated { .. })
            ));
        }
    }
}
