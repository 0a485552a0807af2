//! Sends requests to the log service, over a connection that the monitor made.

use std::os::fd::OwnedFd;
use std::time::Instant;

use control::log::{LogFilter, LogLine, LogReply, LogRequest};
use sdk::services::{ANSWER_HEAD, MAX_MESSAGE};
use sys::channel::ChannelError;
use sys::packets::{PacketError, Packets};

use super::{ClientError, REPLY_TIMEOUT, wait};

/// A connection to the log service of a running Rosemary.
#[derive(Debug)]
pub struct Log(Packets);

/// A part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Lines in the order of their numbers.
    pub lines: Vec<LogLine>,
    /// The number at which the next page starts.
    pub next: u64,
    /// Whether no further lines exist now.
    pub end: bool,
    /// Why the log service cannot store newer lines, if so.
    pub not_kept: Option<String>,
}

impl Log {
    const NAME: &str = "the log";

    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(Packets::from_fd(socket))
    }

    /// Requests the programs that have lines in the log.
    ///
    /// # Errors
    /// The log service does not reply, or cannot read its file.
    pub fn programs(&self) -> Result<Vec<String>, ClientError> {
        match self.request(&LogRequest::Programs)? {
            LogReply::Programs(programs) => Ok(programs),
            reply => Err(refusal(reply)),
        }
    }

    /// Returns the number of the first of the last `count` lines that pass `filter`.
    ///
    /// If fewer lines pass, it is the first of those. One reply covers a part of the log, so this sends
    /// requests until `count` lines are found or the whole log is searched.
    ///
    /// # Errors
    /// The log service does not reply, or cannot read its file.
    pub fn last(&self, count: u32, filter: &LogFilter) -> Result<u64, ClientError> {
        let (mut missing, mut below, mut first) = (count, u64::MAX, None);
        loop {
            let request =
                LogRequest::Last { count: missing, before: below, filter: filter.clone() };
            match self.request(&request)? {
                // Any other reply makes no progress, and this loop would never end.
                LogReply::Last { from, found, before, end }
                    if end || found >= missing || before < below =>
                {
                    if found > 0 || first.is_none() {
                        first = Some(from);
                    }
                    missing = missing.saturating_sub(found);
                    if end || missing == 0 {
                        return Ok(first.unwrap_or(from));
                    }
                    below = before;
                }
                reply => return Err(refusal(reply)),
            }
        }
    }

    /// Requests the lines from number `from` on that pass `filter`, as many as fit into a reply.
    ///
    /// # Errors
    /// The log service does not reply, or cannot read its file.
    pub fn read(&self, from: u64, filter: &LogFilter) -> Result<Page, ClientError> {
        match self.request(&LogRequest::Read { from, filter: filter.clone() })? {
            // Any other reply makes no progress, and the caller's loop would never end.
            LogReply::Lines { lines, next, end, not_kept } if end || next > from => {
                Ok(Page { lines, next, end, not_kept })
            }
            reply => Err(refusal(reply)),
        }
    }

    fn request(&self, request: &LogRequest) -> Result<LogReply, ClientError> {
        let no_reply = |error| {
            let source = match error {
                PacketError::System(error) => ChannelError::System(error),
                PacketError::TooLong => ChannelError::Malformed("it is too long".into()),
                PacketError::Closed | PacketError::WouldBlock => ChannelError::Closed,
            };
            ClientError::NoReply { peer: Self::NAME, source }
        };
        let unexpected = || ClientError::Unexpected { peer: Self::NAME };
        let body = serde_json::to_vec(request).map_err(|_| unexpected())?;
        self.0.send(&[&0_u64.to_le_bytes()[..], &body].concat()).map_err(no_reply)?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        loop {
            match self.0.receive(&mut room) {
                Ok((size, _)) => {
                    let answer = room.get(ANSWER_HEAD..size).ok_or_else(unexpected)?;
                    return serde_json::from_slice(answer).map_err(|_| unexpected());
                }
                Err(PacketError::WouldBlock) => wait(&self.0, Self::NAME, REPLY_TIMEOUT, deadline)?,
                Err(error) => return Err(no_reply(error)),
            }
        }
    }
}

fn refusal(reply: LogReply) -> ClientError {
    match reply {
        LogReply::Refused { why } => ClientError::Failed(why),
        _ => ClientError::Unexpected { peer: Log::NAME },
    }
}
