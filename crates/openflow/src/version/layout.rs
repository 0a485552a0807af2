//! The places of fields in the messages of each version, a row per version.
//!
//! They are for code that reads or changes single fields of a whole message in place. A field that the version does not have is
//! `None`.

/// Places of fields, in bytes from the beginning of the message. Names with `entry_` are about an entry of the statistics of
/// flows, and count from its beginning (OpenFlow 1.3.5 §7.3.5.2, OpenFlow 1.0.2 §5.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The cookie of a flow-mod. OpenFlow 1.3.5 §7.3.4.1, OpenFlow 1.0.2 §5.3.3.
    pub flow_mod_cookie: u8,
    /// The mask of that cookie.
    pub flow_mod_cookie_mask: Option<u8>,
    /// The table of a flow-mod.
    pub flow_mod_table: Option<u8>,
    /// The buffer of a flow-mod.
    pub flow_mod_buffer: u8,
    /// The cookie of a flow-removed. OpenFlow 1.3.5 §7.4.2, OpenFlow 1.0.2 §5.4.2.
    pub flow_removed_cookie: u8,
    /// The cookie in a request for the statistics of flows, single or aggregated. OpenFlow 1.3.5 §7.3.5.2.
    pub flow_request_cookie: Option<u8>,
    /// The mask of that cookie.
    pub flow_request_cookie_mask: Option<u8>,
    /// The first entry of a multipart reply. OpenFlow 1.3.5 §7.3.5, OpenFlow 1.0.2 §5.3.5.
    pub multipart_entries: u8,
    /// The smallest size of an entry.
    pub entry_min_size: u8,
    /// The cookie of an entry.
    pub entry_cookie: u8,
    /// The table of an entry.
    pub entry_table: u8,
    /// The priority of an entry.
    pub entry_priority: u8,
    /// The duration of an entry: seconds, then nanoseconds. OpenFlow 1.5 has the duration in a list behind the match instead
    /// (1.5.1 §7.2.4.2); [`flow_entry_duration`](crate::flow_entry_duration) reads both.
    pub entry_duration: Option<u8>,
}

/// OpenFlow 1.0.2.
pub(super) const V1_0: Layout = Layout {
    flow_mod_cookie: 48,
    flow_mod_cookie_mask: None,
    flow_mod_table: None,
    flow_mod_buffer: 64,
    flow_removed_cookie: 48,
    flow_request_cookie: None,
    flow_request_cookie_mask: None,
    multipart_entries: 12,
    entry_min_size: 88,
    entry_cookie: 64,
    entry_table: 2,
    entry_priority: 52,
    entry_duration: Some(44),
};

/// OpenFlow 1.1.0.
pub(super) const V1_1: Layout = V1_3;

/// OpenFlow 1.2.
pub(super) const V1_2: Layout = V1_3;

/// OpenFlow 1.3.5.
pub(super) const V1_3: Layout = Layout {
    flow_mod_cookie: 8,
    flow_mod_cookie_mask: Some(16),
    flow_mod_table: Some(24),
    flow_mod_buffer: 32,
    flow_removed_cookie: 8,
    flow_request_cookie: Some(32),
    flow_request_cookie_mask: Some(40),
    multipart_entries: 16,
    entry_min_size: 56,
    entry_cookie: 24,
    entry_table: 2,
    entry_priority: 12,
    entry_duration: Some(4),
};

/// OpenFlow 1.4.1.
pub(super) const V1_4: Layout = V1_3;

/// OpenFlow 1.5.1.
pub(super) const V1_5: Layout = Layout {
    flow_removed_cookie: 16,
    entry_min_size: 40,
    entry_cookie: 16,
    entry_table: 4,
    entry_priority: 6,
    entry_duration: None,
    ..V1_3
};
