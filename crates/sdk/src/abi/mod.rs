//! Defines the C ABI between an application and its host: the structures of `c/rosemary_app.h`.
//!
//! `docs/decisions/0002-app-abi.md` gives the reasons for its design. This module and its children
//! are the only place outside the crate `sys` with `unsafe`, which a foreign function interface
//! needs, together with the functions in C of `c/wanted/lib.rs`. [`guest`] is the side of an application, used through
//! [`export_app!`](crate::export_app); [`foreign`] opens it to libraries for applications in C. `host`, behind the feature
//! of that name, is the side of a zone or the kernel.
//!
//! The layout of [`Record`], in bytes, little endian:
//!
//! ```text
//! 0      4     6     7     8       16     20       24         28      30      32
//! +------+-----+-----+-----+-------+------+--------+----------+-------+-------+
//! | size | kind| ver.|flags| dpid  | epoch| in_port| buffer_id| data: offset, size
//! +------+-----+-----+-----+-------+------+--------+----------+-------+-------+
//! 32       40      41       42         44         46        48
//! +--------+-------+--------+----------+----------+---------+-----------
//! | cookie | reason| table  | body_size| total_len| spare   | body ...
//! +--------+-------+--------+----------+----------+---------+-----------
//! ```

#![allow(unsafe_code, reason = "the C ABI is what this module is for")]

pub mod foreign;
#[cfg(feature = "host")]
mod gathered;
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "host")]
pub mod lent;
pub(crate) mod records;

use std::ffi::{c_char, c_void};

pub use names::{Level, MAX_BATCH};

/// The version of the ABI; a host refuses an object of another version.
pub const ABI: u32 = 1;

/// Most bytes of an application's configuration.
pub const MAX_CONFIG: usize = 64 * 1024;

/// Returned by `on_batch` if the application cannot go on.
pub const FAILED: i32 = -1;

/// The name of the symbol that an object exports.
pub const SYMBOL: &str = "rosemary_app";

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub enum RecordKind {
    SnapshotBegin = 1,
    SnapshotEnd = 2,
    SwitchUp = 3,
    SwitchDown = 4,
    Port = 5,
    PacketIn = 6,
    Refused = 7,
    SnapshotPart = 8,
    Reply = 9,
    Error = 10,
    FlowRemoved = 11,
    Lost = 12,
    Alert = 13,
    /// See [`Outcome`](crate::services::Outcome) and `rosemary_app.h`.
    Service = 14,
    FlowsMissing = 15,
    FlowsKept = 16,
    RequestLost = 17,
    /// See [`ClientEvent`](crate::serving::ClientEvent) and `rosemary_app.h`.
    Client = 18,
    /// See [`TableNews`](crate::services::table::TableNews) and `rosemary_app.h`.
    Table = 19,
    /// See [`HttpRequest`](crate::http::HttpRequest) and `rosemary_app.h`.
    Http = 20,
    /// See [`Committed`](crate::Committed) and `rosemary_app.h`.
    Committed = 21,
    /// See [`LearnedHost`](crate::LearnedHost) and `rosemary_app.h`.
    Host = 22,
}

/// Why the kernel refused a message of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The switch is not connected.
    NoSwitch = 1,
    /// The message was for an earlier epoch: the switch has reconnected since.
    Epoch = 2,
    /// It is not a well-formed OpenFlow message of the switch's version.
    Shape = 3,
    /// Applications may not send this kind of message.
    Kind = 4,
    /// Too many messages wait to be sent: the switch does not read them, or the app exceeds its pace.
    Full = 5,
    /// The operator has not granted the capability that it needs.
    Capability = 6,
    /// Its priority is outside the application's band, or, in OpenFlow 1.0, its match has no
    /// wildcards and so has priority 65535.
    Priority = 7,
    /// Its cookie or cookie mask has bits above the 48 that are the application's.
    Cookie = 8,
    /// It could modify or delete flows of others.
    Foreign = 9,
    /// It names a group or meter outside of the application's range.
    Id = 10,
    /// It names a buffer, and the application got no packet-in with it.
    Buffer = 11,
    /// It has an action, instruction, field or meter band that is not allowed, or whose experimenter is
    /// not granted.
    Action = 12,
    /// The application exceeds its messages per second.
    Quota = 13,
    /// Too many requests of the application wait for this switch's replies.
    Unanswered = 14,
    /// The application has reached its limit of flows in this switch.
    Flows = 15,
    /// The switch has lost its flows, and those of guards are put back first.
    Healing = 16,
}

impl Refusal {
    /// Whether the same message may be admitted later without a change of the configuration or of the application's flows.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Full | Self::Quota | Self::Unanswered | Self::Healing)
    }

    /// Returns the refusal with this number in a record.
    pub fn from_wire(number: u8) -> Option<Self> {
        const ALL: [Refusal; 16] = [
            Refusal::NoSwitch,
            Refusal::Epoch,
            Refusal::Shape,
            Refusal::Kind,
            Refusal::Full,
            Refusal::Capability,
            Refusal::Priority,
            Refusal::Cookie,
            Refusal::Foreign,
            Refusal::Id,
            Refusal::Buffer,
            Refusal::Action,
            Refusal::Quota,
            Refusal::Unanswered,
            Refusal::Flows,
            Refusal::Healing,
        ];
        ALL.into_iter().find(|refusal| *refusal as u8 == number)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSwitch => "no such switch is connected",
            Self::Epoch => "the switch has reconnected since",
            Self::Shape => "not a well-formed message of the switch's version",
            Self::Kind => "of a kind that applications may not send",
            Self::Full => "too many messages wait to be sent to the switch",
            Self::Capability => "the app lacks the capability that this message needs",
            Self::Priority => "its priority is outside the app's band",
            Self::Cookie => "its cookie has more than the app's 48 bits",
            Self::Foreign => "it could touch flows of others",
            Self::Id => "its group or meter is not the app's own",
            Self::Buffer => "its buffer was not given to the app",
            Self::Action => "an action, instruction or field that may not be used",
            Self::Quota => "more messages in a second than the operator allows",
            Self::Unanswered => "too many requests wait for the switch's answer",
            Self::Flows => "it has as many flows in this switch as the operator allows",
            Self::Healing => {
                "the switch has lost its flows, and those of guards are put back first"
            }
        })
    }
}

/// In `flags`: an instance that died may have handled this record.
pub const REPEATED: u8 = 1;

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub struct Record {
    pub size: u32,
    pub kind: u16,
    pub version: u8,
    pub flags: u8,
    pub dpid: u64,
    pub epoch: u32,
    pub in_port: u32,
    pub buffer_id: u32,
    pub data_offset: u16,
    pub data_size: u16,
    pub cookie: u64,
    pub reason: u8,
    pub table_id: u8,
    pub body_size: u16,
    pub total_len: u16,
    pub reserved: u16,
}

/// A record's head as words in memory.
pub type Words = [u64; RECORD_HEAD / 8];

/// The index of the cookie among them.
pub const COOKIE_WORD: usize = std::mem::offset_of!(Record, cookie) / 8;

/// Bytes of a record's head.
pub const RECORD_HEAD: usize = size_of::<Record>();

impl Record {
    /// Makes a head with only the fields that every record has; the ring fills in the size.
    #[inline]
    pub fn new(kind: RecordKind, version: u8, dpid: u64, epoch: u32) -> Self {
        Self {
            size: 0,
            kind: kind as u16,
            version,
            flags: 0,
            dpid,
            epoch,
            in_port: 0,
            buffer_id: u32::MAX,
            data_offset: 0,
            data_size: 0,
            cookie: u64::MAX,
            reason: 0,
            table_id: 0,
            body_size: 0,
            total_len: 0,
            reserved: 0,
        }
    }

    /// Reads a head.
    pub fn from_bytes(bytes: &[u8; RECORD_HEAD]) -> Self {
        let part = |at: usize, size: usize| {
            let mut eight = [0; 8];
            eight[..size].copy_from_slice(&bytes[at..at + size]);
            u64::from_le_bytes(eight)
        };
        let four = |at| u32::try_from(part(at, 4)).unwrap_or_default();
        let two = |at| u16::try_from(part(at, 2)).unwrap_or_default();
        Self {
            size: four(0),
            kind: two(4),
            version: bytes[6],
            flags: bytes[7],
            dpid: part(8, 8),
            epoch: four(16),
            in_port: four(20),
            buffer_id: four(24),
            data_offset: two(28),
            data_size: two(30),
            cookie: part(32, 8),
            reason: bytes[40],
            table_id: bytes[41],
            body_size: two(42),
            total_len: two(44),
            reserved: two(46),
        }
    }

    /// Returns the head as the words of a ring.
    #[inline]
    pub fn words(&self) -> Words {
        let half = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let bytes = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
        let [k0, k1] = self.kind.to_le_bytes();
        let [s0, s1, s2, s3] = self.size.to_le_bytes();
        let [b0, b1] = self.body_size.to_le_bytes();
        let [t0, t1] = self.total_len.to_le_bytes();
        [
            bytes([s0, s1, s2, s3, k0, k1, self.version, self.flags]),
            self.dpid,
            half(self.epoch, self.in_port),
            half(self.buffer_id, u32::from(self.data_offset) | u32::from(self.data_size) << 16),
            self.cookie,
            bytes([self.reason, self.table_id, b0, b1, t0, t1, 0, 0]),
        ]
    }
}

/// A port, as the body of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub struct Port {
    pub port_no: u32,
    pub config: u32,
    pub state: u32,
    pub hw_addr: [u8; 6],
    pub reserved: [u8; 2],
    pub name: [u8; 16],
    pub curr_speed: u32,
    pub reserved2: [u32; 2],
}

/// Bytes of a [`Port`].
pub const PORT_SIZE: usize = size_of::<Port>();

impl Port {
    /// Encodes it as the body of a record.
    pub fn to_bytes(&self) -> [u8; PORT_SIZE] {
        let mut bytes = [0; PORT_SIZE];
        bytes[0..4].copy_from_slice(&self.port_no.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.config.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.state.to_le_bytes());
        bytes[12..18].copy_from_slice(&self.hw_addr);
        bytes[20..36].copy_from_slice(&self.name);
        bytes[36..40].copy_from_slice(&self.curr_speed.to_le_bytes());
        bytes
    }

    /// Decodes the body of a record.
    pub fn from_bytes(bytes: &[u8; PORT_SIZE]) -> Self {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (mut hw_addr, mut name) = ([0; 6], [0; 16]);
        hw_addr.copy_from_slice(&bytes[12..18]);
        name.copy_from_slice(&bytes[20..36]);
        Self {
            port_no: u32_at(0),
            config: u32_at(4),
            state: u32_at(8),
            hw_addr,
            reserved: [0; 2],
            name,
            curr_speed: u32_at(36),
            reserved2: [0; 2],
        }
    }
}

/// The functions that an application can call: `struct rosemary_host`.
#[derive(Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub struct HostFunctions {
    pub abi: u32,
    pub size: u32,
    pub context: *mut c_void,
    pub lowest_priority: u16,
    pub highest_priority: u16,
    pub reserved: u32,
    pub reserve: unsafe extern "C" fn(host: *const HostFunctions, size: u32) -> *mut c_void,
    pub commit:
        unsafe extern "C" fn(host: *const HostFunctions, dpid: u64, epoch: u32, size: u32) -> i32,
    pub room: unsafe extern "C" fn(host: *const HostFunctions) -> u32,
    pub stop: unsafe extern "C" fn(host: *const HostFunctions, number: u32),
    pub log: unsafe extern "C" fn(
        host: *const HostFunctions,
        level: u32,
        text: *const c_char,
        size: u32,
    ),
    pub first_group: u32,
    pub last_group: u32,
    pub first_meter: u32,
    pub last_meter: u32,
    pub config: *const c_char,
    pub config_size: u32,
    pub reserved2: u32,
    pub ask: unsafe extern "C" fn(
        host: *const HostFunctions,
        service: u32,
        request: *const c_void,
        size: u32,
    ) -> i64,
    pub take: unsafe extern "C" fn(host: *const HostFunctions, request: u64) -> i32,
    pub commit_series: unsafe extern "C" fn(
        host: *const HostFunctions,
        dpid: u64,
        epoch: u32,
        size: u32,
        count: u32,
    ) -> i32,
    pub read_table: unsafe extern "C" fn(
        host: *const HostFunctions,
        service: u32,
        first: u32,
        count: u32,
        records: *mut u64,
    ) -> i64,
    pub publish:
        unsafe extern "C" fn(host: *const HostFunctions, slot: u32, record: *const u64) -> i32,
    pub answer: unsafe extern "C" fn(
        host: *const HostFunctions,
        client: u64,
        request: u64,
        more: u32,
        body: *const c_void,
        size: u32,
    ) -> i32,
    pub report_incident: unsafe extern "C" fn(
        host: *const HostFunctions,
        summary: *const c_char,
        summary_size: u32,
        evidence: *const c_char,
        evidence_size: u32,
    ),
    pub set_problem:
        unsafe extern "C" fn(host: *const HostFunctions, text: *const c_char, size: u32),
}

/// The former name of [`HostFunctions`]; [`hosts::HostTable`](crate::hosts::HostTable) is something else.
#[deprecated = "use `HostFunctions`"]
pub type HostTable = HostFunctions;

/// The argument of a call: `struct rosemary_batch`.
#[derive(Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub struct BatchTable {
    pub now_ns: u64,
    pub count: u32,
    pub reserved: u32,
    pub records: *const *const Record,
}

/// The result of a call: `struct rosemary_answer`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub struct AnswerTable {
    pub handled: u32,
    pub reserved: u32,
    pub wake_at_ns: u64,
}

/// The constant that an object exports: `struct rosemary_app`.
#[derive(Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in rosemary_app.h")]
pub struct AppTable {
    pub abi: u32,
    pub size: u32,
    pub name: *const c_char,
    pub version: *const c_char,
    pub create: Option<unsafe extern "C" fn(host: *const HostFunctions) -> *mut c_void>,
    pub on_batch: Option<
        unsafe extern "C" fn(
            app: *mut c_void,
            batch: *const BatchTable,
            answer: *mut AnswerTable,
        ) -> i32,
    >,
    pub destroy: Option<unsafe extern "C" fn(app: *mut c_void)>,
}

// SAFETY: a constant: function pointers, and pointers to constant strings.
unsafe impl Sync for AppTable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_has_the_layout_of_the_c_header() {
        let head = Record {
            size: 0x0102_0304,
            kind: 0x0506,
            version: 7,
            flags: 8,
            dpid: 0x1112_1314_1516_1718,
            epoch: 0x2122_2324,
            in_port: 0x2526_2728,
            buffer_id: 0x3132_3334,
            data_offset: 0x3536,
            data_size: 0x3738,
            cookie: 0x4142_4344_4546_4748,
            reason: 0x51,
            table_id: 0x52,
            body_size: 0x5354,
            total_len: 0x5556,
            reserved: 0,
        };
        let words = head.words();
        // SAFETY: six words are 48 bytes, which any value of `Record` may have.
        let back = unsafe { std::mem::transmute::<[u64; 6], Record>(words) };
        assert_eq!(back, head);
        let mut bytes = [0; RECORD_HEAD];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        assert_eq!(Record::from_bytes(&bytes), head);
    }

    #[test]
    fn port_survives_as_bytes() {
        let port = Port {
            port_no: 1,
            config: 2,
            state: 3,
            hw_addr: [4, 5, 6, 7, 8, 9],
            reserved: [0; 2],
            name: *b"s1-eth1\0\0\0\0\0\0\0\0\0",
            curr_speed: 10_000_000,
            reserved2: [0; 2],
        };
        assert_eq!(Port::from_bytes(&port.to_bytes()), port);
        // SAFETY: `Port` is 48 bytes without padding between or after its fields.
        let memory = unsafe { std::mem::transmute::<Port, [u8; PORT_SIZE]>(port) };
        assert_eq!(port.to_bytes(), memory);
    }
}
