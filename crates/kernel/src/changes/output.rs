//! Appends the messages of a step to the output: requests about a bundle, changes in a bundle or without one, barriers.
//!
//! OpenFlow 1.4.1 §7.3.9, and EXT-230 of the ONF for OpenFlow 1.3.

use openflow::{BundleAdd, BundleCommand, BundleControl, BundleFlags, EncodeError, Kind, Version};

use super::Expected;
use super::set::ChangeSet;
use crate::rewrite;

/// The flags of every bundle.
pub(super) const FLAGS: BundleFlags = BundleFlags(BundleFlags::ATOMIC.0 | BundleFlags::ORDERED.0);

/// Where messages go.
#[derive(Debug)]
pub(crate) struct Output<'o, X> {
    pub(crate) version: Version,
    /// Returns the first of this number of new transaction ids.
    pub(crate) xids: X,
    pub(crate) out: &'o mut Vec<u8>,
}

/// The transaction ids of a step that was appended, and the expected answer: see [`Waits`](super::Waits).
#[derive(Debug)]
pub(super) struct Appended {
    /// The transaction id of the open request in front of the changes, if there is one.
    pub(super) opens: Option<u32>,
    /// The transaction id of the first change, or of the request if the step has no changes.
    pub(super) first: u32,
    /// The transaction id of the last message, which the answer has.
    pub(super) last: u32,
    pub(super) expects: Expected,
}

impl<X: FnMut(u32) -> u32> Output<'_, X> {
    /// Appends a command about a bundle.
    pub(super) fn control(
        &mut self,
        bundle_id: u32,
        command: BundleCommand,
    ) -> Result<Appended, EncodeError> {
        let xid = (self.xids)(1);
        self.control_as(xid, bundle_id, command)?;
        let answer = match command {
            BundleCommand::OpenRequest => BundleCommand::OpenReply,
            BundleCommand::CloseRequest => BundleCommand::CloseReply,
            BundleCommand::CommitRequest => BundleCommand::CommitReply,
            _ => BundleCommand::DiscardReply,
        };
        Ok(Appended { opens: None, first: xid, last: xid, expects: Expected::Bundle(answer) })
    }

    fn control_as(
        &mut self,
        xid: u32,
        bundle_id: u32,
        command: BundleCommand,
    ) -> Result<(), EncodeError> {
        let control = BundleControl { bundle_id, command, flags: FLAGS, time: None };
        openflow::append(self.out, |out| control.encode(self.version, xid, out)).map(drop)
    }

    /// Appends changes for a bundle, which is opened before if `opens`, and the request to close it.
    pub(super) fn collect(
        &mut self,
        set: &ChangeSet,
        changes: &[usize],
        (bundle_id, opens): (u32, bool),
    ) -> Result<Appended, EncodeError> {
        let open = BundleCommand::OpenRequest;
        let opens = opens.then(|| self.control(bundle_id, open)).transpose()?.map(|it| it.last);
        let first = (self.xids)(count(changes));
        let mut inner = Vec::new();
        for (index, xid) in changes.iter().zip(0..) {
            let xid = first.wrapping_add(xid);
            inner.clear();
            inner.extend_from_slice(set.message(*index));
            rewrite::set_xid(&mut inner, xid);
            let add = BundleAdd { bundle_id, flags: FLAGS, message: &inner, time: None };
            openflow::append(self.out, |out| add.encode(self.version, xid, out))?;
        }
        let close = self.control(bundle_id, BundleCommand::CloseRequest)?;
        Ok(Appended { opens, first, ..close })
    }

    /// Appends changes, and a barrier request.
    pub(super) fn plain(
        &mut self,
        set: &ChangeSet,
        changes: &[usize],
    ) -> Result<Appended, EncodeError> {
        let first = (self.xids)(count(changes));
        for (index, xid) in changes.iter().zip(0..) {
            let start = self.out.len();
            self.out.extend_from_slice(set.message(*index));
            rewrite::set_xid(&mut self.out[start..], first.wrapping_add(xid));
        }
        let (version, last) = (self.version, (self.xids)(1));
        openflow::append(self.out, |out| Kind::BarrierRequest.encode_empty(version, last, out))?;
        Ok(Appended { opens: None, first, last, expects: Expected::Barrier })
    }

    /// Appends the message that undoes a change.
    pub(super) fn undo(&mut self, set: &ChangeSet, index: usize) {
        let xid = (self.xids)(1);
        set.undo(index, xid, self.out);
    }
}

fn count(changes: &[usize]) -> u32 {
    u32::try_from(changes.len()).unwrap_or(u32::MAX)
}
