//! Asking the log, over a connection that the monitor made.

use std::os::fd::OwnedFd;
use std::time::Instant;

use control::log::{LogFilter, LogLine, LogReply, LogRequest};
use sdk::services::{ANSWER_HEAD, MAX_MESSAGE};
use sys::channel::ChannelError;
use sys::packets::{PacketError, Packets};

use super::{AskError, PATIENCE, wait};

/// A connection to the log of a running Rosemary.
#[derive(Debug)]
pub struct Log(Packets);

/// A part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Lines, by number.
    pub lines: Vec<LogLine>,
    /// The number from which to read on.
    pub next: u64,
    /// Whether that is the end, for now.
    pub end: bool,
    /// Why newer lines could not be kept, if so.
    pub not_kept: Option<String>,
}

impl Log {
    const WHOM: &str = "the log";

    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(Packets::from_fd(socket))
    }

    /// The programs that have lines in the log.
    ///
    /// # Errors
    /// It did not answer, or cannot be read.
    pub fn programs(&self) -> Result<Vec<String>, AskError> {
        match self.ask(&LogRequest::Programs)? {
            LogReply::Programs(programs) => Ok(programs),
            answer => Err(refusal(answer)),
        }
    }

    /// From which number on there are `count` such lines, or as many as there are. Asks as often as it takes
    /// to look at all that are there.
    ///
    /// # Errors
    /// It did not answer, or cannot be read.
    pub fn last(&self, count: u32, filter: &LogFilter) -> Result<u64, AskError> {
        let (mut missing, mut below, mut first) = (count, u64::MAX, None);
        loop {
            let request =
                LogRequest::Last { count: missing, before: below, filter: filter.clone() };
            match self.ask(&request)? {
                // Another would be asked for ever.
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
                answer => return Err(refusal(answer)),
            }
        }
    }

    /// Such lines from number `from` on, as many as an answer has room for.
    ///
    /// # Errors
    /// It did not answer, or cannot be read.
    pub fn read(&self, from: u64, filter: &LogFilter) -> Result<Page, AskError> {
        match self.ask(&LogRequest::Read { from, filter: filter.clone() })? {
            // Another would be asked for ever.
            LogReply::Lines { lines, next, end, not_kept } if end || next > from => {
                Ok(Page { lines, next, end, not_kept })
            }
            answer => Err(refusal(answer)),
        }
    }

    fn ask(&self, request: &LogRequest) -> Result<LogReply, AskError> {
        let silent = |error| {
            let source = match error {
                PacketError::System(error) => ChannelError::System(error),
                PacketError::TooLong => ChannelError::Malformed("it is too long".into()),
                PacketError::Closed | PacketError::WouldBlock => ChannelError::Closed,
            };
            AskError::Silent { whom: Self::WHOM, source }
        };
        let unexpected = || AskError::Unexpected { whom: Self::WHOM };
        let body = serde_json::to_vec(request).map_err(|_| unexpected())?;
        self.0.send(&[&0_u64.to_le_bytes()[..], &body].concat()).map_err(silent)?;
        let give_up = Instant::now() + PATIENCE;
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        loop {
            match self.0.receive(&mut room) {
                Ok((size, _)) => {
                    let answer = room.get(ANSWER_HEAD..size).ok_or_else(unexpected)?;
                    return serde_json::from_slice(answer).map_err(|_| unexpected());
                }
                Err(PacketError::WouldBlock) => wait(&self.0, Self::WHOM, PATIENCE, give_up)?,
                Err(error) => return Err(silent(error)),
            }
        }
    }
}

fn refusal(answer: LogReply) -> AskError {
    match answer {
        LogReply::Refused { why } => AskError::NotKnown(why),
        _ => AskError::Unexpected { whom: Log::WHOM },
    }
}
