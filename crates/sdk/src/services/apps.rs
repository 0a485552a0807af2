//! Reads the counters of other applications, and limits them. The resource monitor provides this service.
//!
//! The body of a request, behind [`REQUEST_OF_APP`](super::REQUEST_OF_APP):
//!
//! ```text
//! counters   1
//! limit      2 | pace u32 | seconds u16 | name | why      pace: flow-mods per second for each switch; 0 suspends
//! release    3 | name
//! ```
//!
//! An answer:
//!
//! ```text
//! done       0
//! refused    1 | why
//! apps       2 | count u16 | count x (number u16 | delivered u64 | flow_mods u64 | refused u64 | delayed u64 |
//!                                      limited u8 | pace u32 | name)      limited: 0 no, 1 throttled, 2 suspended
//! senders    3 | more u8 | count u16 | count x (dpid u64 | epoch u32 | app u16 | flow_mods u64)
//! ```
//!
//! Counters are answered by apps and then by senders, in as many answers as they need; `more` is 1 if another follows.

use openflow::Dpid;

use super::wire::{Reader, Writer};
use super::{AskError, RequestId, Service};
use crate::network::Network;

/// The longest time of a limit, in seconds. It can be renewed.
pub const MOST_SECONDS: u16 = 3600;

/// Most bytes of the reason of a limit.
pub const MOST_WHY: usize = 400;

/// A limit for an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Each switch receives at most this many flow-mods per second of it, at least 1; the others wait.
    Throttle(u32),
    /// The kernel refuses its flow-mods and all other messages that change a switch.
    Suspend,
}

impl Measure {
    fn pace(self) -> u32 {
        match self {
            Self::Throttle(pace) => pace.max(1),
            Self::Suspend => 0,
        }
    }

    fn of_pace(pace: u32) -> Self {
        if pace == 0 { Self::Suspend } else { Self::Throttle(pace) }
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Throttle(pace) => write!(f, "throttled to {pace} flow-mods/s for each switch"),
            Self::Suspend => f.write_str("suspended: its flow-mods are refused"),
        }
    }
}

/// A request to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// The counters of all applications; needs the capability `apps.read`.
    Counters,
    /// Limits an application, or renews its limit; needs the capability `apps.limit:NAME`.
    Limit {
        /// Its name.
        app: &'a str,
        /// The limit.
        measure: Measure,
        /// When the limit ends by itself, 1 to [`MOST_SECONDS`].
        seconds: u16,
        /// The reason, for the operator's incident, at most [`MOST_WHY`] bytes.
        why: &'a str,
    },
    /// Ends a limit; needs the same capability.
    Release {
        /// The application's name.
        app: &'a str,
    },
}

impl<'a> Request<'a> {
    /// Returns the request's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Counters => out.u8(1),
            Self::Limit { app, measure, seconds, why } => {
                out.u8(2).0.extend(measure.pace().to_le_bytes());
                out.u16(*seconds).short(app.as_bytes()).short(why.as_bytes())
            }
            Self::Release { app } => out.u8(3).short(app.as_bytes()),
        };
        out.0
    }

    /// Reads a request, or returns `None` if it is malformed or out of bounds.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let request = match from.u8()? {
            1 => Self::Counters,
            2 => {
                let (pace, seconds) = (from.u32()?, from.u16()?);
                let (app, why) = (from.text()?, from.text()?);
                let fits = (1..=MOST_SECONDS).contains(&seconds) && why.len() <= MOST_WHY;
                fits.then_some(())?;
                Self::Limit { app, measure: Measure::of_pace(pace), seconds, why }
            }
            3 => Self::Release { app: from.text()? },
            _ => return None,
        };
        from.end()?;
        Some(request)
    }
}

/// Counters of an application, since the kernel started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppCounters {
    /// Its number, which never changes.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// Packet-ins that it received, of all switches.
    pub delivered: u64,
    /// Flow-mods and other messages that change switches, which the kernel admitted.
    pub flow_mods: u64,
    /// Its messages that the kernel refused.
    pub refused: u64,
    /// Its flow-mods that waited because of its pace.
    pub delayed: u64,
    /// The limit that an application has set.
    pub limit: Option<Measure>,
}

/// Messages of an application to a switch, on the switch's present connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The switch.
    pub dpid: Dpid,
    /// The number of its connection. Counters begin at 0 with a connection.
    pub epoch: u32,
    /// The application's number.
    pub app: u16,
    /// Flow-mods and other messages that change the switch, which the kernel admitted.
    pub flow_mods: u64,
}

/// An answer of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The limit was set or released.
    Done,
    /// The request was refused.
    Refused(String),
    /// Applications.
    Apps(Vec<AppCounters>),
    /// Pairs of an application and a switch.
    Senders {
        /// The pairs.
        senders: Vec<Sender>,
        /// Whether another answer follows.
        more: bool,
    },
}

/// Most elements of an answer, so that it fits into a message.
pub const MOST_ELEMENTS: usize = 400;

impl Answer {
    /// Returns the answer's bytes. At most [`MOST_ELEMENTS`] elements are written.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let count = |len: usize| u16::try_from(len.min(MOST_ELEMENTS)).unwrap_or(u16::MAX);
        match self {
            Self::Done => drop(out.u8(0)),
            Self::Refused(why) => drop(out.u8(1).short(why.as_bytes())),
            Self::Apps(apps) => {
                out.u8(2).u16(count(apps.len()));
                for app in apps.iter().take(MOST_ELEMENTS) {
                    out.u16(app.number).u64(app.delivered).u64(app.flow_mods);
                    out.u64(app.refused).u64(app.delayed);
                    let (limited, pace) = match app.limit {
                        None => (0, 0),
                        Some(Measure::Throttle(pace)) => (1, pace),
                        Some(Measure::Suspend) => (2, 0),
                    };
                    out.u8(limited).0.extend(pace.to_le_bytes());
                    out.short(app.name.as_bytes());
                }
            }
            Self::Senders { senders, more } => {
                out.u8(3).u8(u8::from(*more)).u16(count(senders.len()));
                for it in senders.iter().take(MOST_ELEMENTS) {
                    out.u64(it.dpid.0).0.extend(it.epoch.to_le_bytes());
                    out.u16(it.app).u64(it.flow_mods);
                }
            }
        }
        out.0
    }

    /// Reads an answer, or returns `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let answer = match from.u8()? {
            0 => Self::Done,
            1 => Self::Refused(from.text()?.to_owned()),
            2 => {
                let count = from.u16()?;
                Self::Apps((0..count).map(|_| app(&mut from)).collect::<Option<_>>()?)
            }
            3 => {
                let (more, count) = (from.u8()? != 0, from.u16()?);
                let senders = (0..count).map(|_| sender(&mut from)).collect::<Option<_>>()?;
                Self::Senders { senders, more }
            }
            _ => return None,
        };
        from.end()?;
        Some(answer)
    }
}

fn app(from: &mut Reader<'_>) -> Option<AppCounters> {
    let number = from.u16()?;
    let (delivered, flow_mods, refused, delayed) =
        (from.u64()?, from.u64()?, from.u64()?, from.u64()?);
    let limit = match (from.u8()?, from.u32()?) {
        (0, _) => None,
        (1, pace) => Some(Measure::Throttle(pace)),
        (2, _) => Some(Measure::Suspend),
        _ => return None,
    };
    let name = from.text()?.to_owned();
    Some(AppCounters { number, name, delivered, flow_mods, refused, delayed, limit })
}

fn sender(from: &mut Reader<'_>) -> Option<Sender> {
    let (dpid, epoch, app, flow_mods) = (Dpid(from.u64()?), from.u32()?, from.u16()?, from.u64()?);
    Some(Sender { dpid, epoch, app, flow_mods })
}

impl Network<'_> {
    /// Requests the counters of all applications. [`Event::Served`](crate::Event::Served) has the answers, for
    /// [`Answer::decode`]: [`Answer::Apps`], then one or more [`Answer::Senders`]. The last one has no `more`.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn app_counters(&mut self) -> Result<RequestId, AskError> {
        self.ask_service(Service::Apps, &Request::Counters.encode())
    }

    /// Limits an application for a time, or renews its limit. The operator gets an incident with the reason `why`.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn limit_app(
        &mut self,
        app: &str,
        measure: Measure,
        seconds: u16,
        why: &str,
    ) -> Result<RequestId, AskError> {
        let seconds = seconds.clamp(1, MOST_SECONDS);
        let end = (0..=why.len().min(MOST_WHY)).rev().find(|end| why.is_char_boundary(*end));
        let why = &why[..end.unwrap_or(0)];
        let request = Request::Limit { app, measure, seconds, why };
        self.ask_service(Service::Apps, &request.encode())
    }

    /// Ends the limit of an application.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn release_app(&mut self, app: &str) -> Result<RequestId, AskError> {
        self.ask_service(Service::Apps, &Request::Release { app }.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_MESSAGE;
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        for request in [
            Request::Counters,
            Request::Limit {
                app: "bulk",
                measure: Measure::Throttle(7),
                seconds: 30,
                why: "too fast",
            },
            Request::Limit { app: "bulk", measure: Measure::Suspend, seconds: 1, why: "" },
            Request::Release { app: "bulk" },
        ] {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request));
            for end in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..end]), None, "{end}");
            }
            assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
        }
        let limit = |seconds, why: &str| {
            let limit = Request::Limit { app: "a", measure: Measure::Suspend, seconds, why };
            Request::decode(&limit.encode()).is_some()
        };
        assert!(limit(MOST_SECONDS, "") && !limit(0, "") && !limit(MOST_SECONDS + 1, ""));
        assert!(!limit(1, &"x".repeat(MOST_WHY + 1)));
    }

    #[test]
    fn answers_are_read_as_written_and_fit() {
        let app = |number, limit| AppCounters {
            number,
            name: "a".repeat(40),
            delivered: 1,
            flow_mods: 2,
            refused: 3,
            delayed: 4,
            limit,
        };
        let sender = Sender { dpid: Dpid(1), epoch: 2, app: 3, flow_mods: 4 };
        let limits = [None, Some(Measure::Throttle(9)), Some(Measure::Suspend)];
        let apps: Vec<_> = (0..).zip(limits).map(|(number, limit)| app(number, limit)).collect();
        for answer in [
            Answer::Done,
            Answer::Refused("no".into()),
            Answer::Apps(apps),
            Answer::Apps(vec![app(1, None); MOST_ELEMENTS]),
            Answer::Senders { senders: vec![sender; MOST_ELEMENTS], more: true },
        ] {
            let bytes = answer.encode();
            assert!(bytes.len() <= MAX_MESSAGE, "{}", bytes.len());
            assert_eq!(Answer::decode(&bytes[..bytes.len() - 1]), None);
            assert_eq!(Answer::decode(&bytes), Some(answer));
        }
        assert_eq!(Answer::decode(&[2, 255, 255]), None);
    }
}
