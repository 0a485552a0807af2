//! Requests the description of a switch after the handshake: its configuration, and the size and use of its tables.
//!
//! OpenFlow 1.3.5 §7.3.2 (configuration), §7.3.5.4 (table statistics), §7.3.5.5 (table features);
//! in 1.0 table statistics have the sizes too (OpenFlow 1.0.2 §5.3.5).
//!
//! The session does not wait for the replies, and a switch that refuses a request remains usable. A reply counts while
//! the request with its transaction id is open. This module keeps no reply.

use openflow::wire::List;
use openflow::{
    Available as _, DecodeError, Header, Kind, MultipartReply, MultipartRequest, ReplyBody,
    SwitchConfig, Version,
};

use super::session::send;
use crate::session::{Description, Table};

/// The transaction ids of the open requests.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    config: Option<u32>,
    stats: Option<u32>,
    features: Option<u32>,
    /// Number of requests for the description of tables.
    pub(super) table_requests: u64,
}

impl Inventory {
    /// Sends the requests that a switch answers quickly, with two unused transaction ids.
    pub(super) fn request(&mut self, version: Version, xids: [u32; 2], out: &mut Vec<u8>) {
        let [config, stats] = xids;
        send(out, |out| Kind::GetConfigRequest.encode_empty(version, config, out));
        send(out, |out| MultipartRequest::Table.encode(version, stats, out));
        (self.config, self.stats) = (Some(config), Some(stats));
        self.table_requests += 1;
    }

    /// Requests the sizes of the tables, with an unused transaction id. Only for versions with table features.
    ///
    /// The reply is large: Open vSwitch describes 254 tables in 350 KB, which takes it some 60 ms. Packets wait for that time if
    /// Open vSwitch forwards them in the same thread, as its userspace datapath does.
    pub(super) fn request_sizes(&mut self, version: Version, xid: u32, out: &mut Vec<u8>) {
        let request = MultipartRequest::TableFeatures(List::from(&[]));
        send(out, |out| request.encode(version, xid, out));
        self.features = Some(xid);
        self.table_requests += 1;
    }

    /// Requests the fill level of the tables again, with an unused transaction id.
    pub(super) fn request_tables(&mut self, version: Version, xid: u32, out: &mut Vec<u8>) {
        send(out, |out| MultipartRequest::Table.encode(version, xid, out));
        self.stats = Some(xid);
    }

    /// Whether a message with this transaction id answers an open request.
    pub(super) fn is_open(&self, xid: u32) -> bool {
        [self.config, self.stats, self.features].contains(&Some(xid))
    }

    /// Decodes a reply for which [`is_open`](Self::is_open) was true.
    ///
    /// # Errors
    /// The reply is malformed, or of another type than the request. The request is closed.
    pub(super) fn reply(&mut self, kind: Kind, message: &[u8]) -> Result<Description, DecodeError> {
        let header = Header::decode(message)?;
        if self.config == Some(header.xid) && kind != Kind::GetConfigReply
            || self.config != Some(header.xid) && kind != Kind::MultipartReply
        {
            self.close(header.xid);
            return Err(DecodeError::WrongKind {
                version: header.version,
                found: header.kind,
                expected: "the type that was requested: get_config_reply or multipart_reply",
            });
        }
        let read = self.read(header.xid, message);
        if !matches!(read, Ok((_, true))) {
            self.close(header.xid);
        }
        read.map(|(description, _)| description)
    }

    /// The reply's content, and whether more parts follow.
    fn read(&self, xid: u32, message: &[u8]) -> Result<(Description, bool), DecodeError> {
        if self.config == Some(xid) {
            return Ok((Description::Config(SwitchConfig::decode(message)?), false));
        }
        let MultipartReply { more, body } = MultipartReply::decode(message)?;
        let tables = match body {
            ReplyBody::Table(tables) => tables
                .into_iter()
                .map(|table| Table {
                    table_id: table.table_id,
                    // In 1.3 the field does not exist, and is 0 here.
                    max_entries: table.max_entries.available().filter(|size| *size > 0),
                    active_count: table.active_count.available(),
                })
                .collect(),
            ReplyBody::TableFeatures(tables) => tables
                .iter()
                .map(|table| Table {
                    table_id: table.table_id,
                    max_entries: table.max_entries.available(),
                    active_count: None,
                })
                .collect(),
            _ => {
                let found = message.get(Header::SIZE..).and_then(<[u8]>::first_chunk);
                return Err(DecodeError::BadValue {
                    field: "multipart_reply.type",
                    offset: Header::SIZE,
                    found: found.map_or(0, |found| u16::from_be_bytes(*found).into()),
                    expected: "3 (tables) or 12 (table features), as requested",
                });
            }
        };
        Ok((Description::Tables(tables), more))
    }

    /// Closes the request with this transaction id.
    pub(super) fn close(&mut self, xid: u32) {
        for open in [&mut self.config, &mut self.stats, &mut self.features] {
            if *open == Some(xid) {
                *open = None;
            }
        }
    }
}
