//! Sends requests to the history service, over a connection that the monitor made.

use std::os::fd::OwnedFd;
use std::time::Instant;

use control::history::{HistoryReply, HistoryRequest, MAX_POINTS_IN_ALL, PointRow, SeriesName};
use sdk::services::{ANSWER_HEAD, MAX_MESSAGE};
use sys::channel::ChannelError;
use sys::packets::{PacketError, Packets};

use super::{ClientError, REPLY_TIMEOUT, wait};

/// A connection to the history service of a running Rosemary.
#[derive(Debug)]
pub struct History(Packets);

/// A series in a span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Points {
    /// The seconds of each point.
    pub step: u64,
    /// The points, the oldest first. Times without samples have none.
    pub points: Vec<PointRow>,
}

impl History {
    const NAME: &str = "the history";

    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(Packets::from_fd(socket))
    }

    /// Requests the names of all series, in the order of their texts. Names of another version are left out.
    ///
    /// # Errors
    /// The history service does not reply, or cannot read its file.
    pub fn series(&self) -> Result<Vec<SeriesName>, ClientError> {
        let mut all: Vec<String> = Vec::new();
        loop {
            let after = all.last().cloned().unwrap_or_default();
            let HistoryReply::Series { series, more } =
                self.request(&HistoryRequest::Series { after: after.clone() })?
            else {
                return Err(unexpected());
            };
            // Texts that do not grow would lead to the same request again.
            if more && series.last().is_none_or(|last| *last <= after) {
                return Err(unexpected());
            }
            all.extend(series);
            if !more {
                return Ok(all.iter().filter_map(|it| it.parse().ok()).collect());
            }
        }
    }

    /// Reads a series from second `from` to before second `to`, in steps of `step` seconds or longer ones. `None` if there is no such
    /// series.
    ///
    /// # Errors
    /// The history service does not reply, or cannot read its file.
    pub fn read(
        &self,
        series: &SeriesName,
        (mut from, to): (u64, u64),
        mut step: u64,
    ) -> Result<Option<Points>, ClientError> {
        let mut all: Vec<PointRow> = Vec::new();
        loop {
            let request = HistoryRequest::Read { series: series.to_string(), from, to, step };
            match self.request(&request)? {
                HistoryReply::Points { step: its, points, next } => {
                    step = its;
                    all.extend(points);
                    match next {
                        None => return Ok(Some(Points { step, points: all })),
                        Some(next) if next > from && (all.len() as u64) < MAX_POINTS_IN_ALL => {
                            from = next;
                        }
                        Some(_) => return Err(unexpected()),
                    }
                }
                HistoryReply::NoSeries => return Ok(None),
                HistoryReply::Series { .. } | HistoryReply::Refused { .. } => {
                    return Err(unexpected());
                }
            }
        }
    }

    fn request(&self, request: &HistoryRequest) -> Result<HistoryReply, ClientError> {
        let no_reply = |error| {
            let source = match error {
                PacketError::System(error) => ChannelError::System(error),
                PacketError::TooLong => ChannelError::Malformed("it is too long".into()),
                PacketError::Closed | PacketError::WouldBlock => ChannelError::Closed,
            };
            ClientError::NoReply { peer: Self::NAME, source }
        };
        let body = serde_json::to_vec(request).map_err(|_| unexpected())?;
        self.0.send(&[&0_u64.to_le_bytes()[..], &body].concat()).map_err(no_reply)?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        loop {
            match self.0.receive(&mut room) {
                Ok((size, _)) => {
                    let answer = room.get(ANSWER_HEAD..size).ok_or_else(unexpected)?;
                    return match serde_json::from_slice(answer).map_err(|_| unexpected())? {
                        HistoryReply::Refused { why } => Err(ClientError::Failed(why)),
                        reply => Ok(reply),
                    };
                }
                Err(PacketError::WouldBlock) => wait(&self.0, Self::NAME, REPLY_TIMEOUT, deadline)?,
                Err(error) => return Err(no_reply(error)),
            }
        }
    }
}

fn unexpected() -> ClientError {
    ClientError::Unexpected { peer: History::NAME }
}
