//! The history service keeps figures of the network and of the programs over time, for operators: samples, minutes and hours.
//!
//! | module | content |
//! | --- | --- |
//! | [`point`] | sums of samples, and the resolutions |
//! | [`block`] | the bytes of one series in one span of time |
//! | [`directory`] | which series are kept |
//! | [`store`] | the file |
//! | [`samples`] | turns what the programs report into samples |
//! | [`feed`] | the thread that asks the programs |
//!
//! A thread asks the other programs, as the command does, once per interval ([`feed`]). The service stores the answers, and answers
//! operators from the file. Nobody waits for the history, and it changes nothing.
//!
//! A full disk loses the samples of its time. A damaged file makes the process end: the monitor sets the file aside and starts the
//! service with a new one.

pub mod block;
pub mod directory;
pub mod feed;
pub mod point;
pub mod samples;
pub mod store;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use control::clients::{ClientRequest, Clients, Reply};
use control::history::{HistoryReply, HistoryRequest, MAX_SERIES};
use control::service::ServiceQuotas;
use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;
use tracing::{error, info, warn};

use self::feed::{Feed, Round};
use self::store::{Bounds, Page, Recorded, Store};
use crate::disk::{Disk, DiskError};
use crate::run::{Needs, OpenError, Service, ServiceError, Startup};

/// The history service.
#[derive(Debug)]
pub struct History<D = File> {
    store: Store<D>,
    /// `None` in tests of the answers.
    feed: Option<Feed>,
    /// Why the last samples could not be stored, if so.
    fails: Option<String>,
    /// Why the process must end, if it must.
    must_end: Option<ServiceError>,
    said_left_out: bool,
    said_unreadable: bool,
}

impl Service for History {
    const NAME: &'static str = "history";

    // Each request may read many blocks, and the samples must not wait long.
    const PER_TURN: usize = 4;

    fn needs(_: &Startup) -> Needs {
        let limits = Limits { descriptors: 256, threads: 8, file_size: 1 << 41, memory: None };
        Needs { profile: Profile::History, network: false, read: Vec::new(), limits }
    }

    fn open(mut startup: Startup) -> Result<Self, OpenError> {
        // The file came first, then the channel to the monitor.
        let requests = startup.take_file()?;
        let file = startup.take_file()?;
        let mut history = Self::of(File::from(file), startup.quotas);
        match history.store.open() {
            Ok(()) | Err(DiskError::Full | DiskError::Failed(_)) => {}
            Err(error @ DiskError::Damaged(_)) => return Err(error.into()),
        }
        let interval = Duration::from_secs(startup.quotas.history_interval.max(1).into());
        history.feed = Some(Feed::start(requests, interval)?);
        Ok(history)
    }

    fn serve(&mut self, asked: Vec<ClientRequest>, clients: &mut Clients) {
        let rounds = self.feed.as_mut().map(Feed::take).unwrap_or_default();
        for round in rounds {
            self.record(&round);
        }
        if self.feed.as_ref().is_some_and(Feed::has_ended) {
            let why = "its connection to the monitor is out of step";
            self.must_end.get_or_insert(ServiceError::Stuck(why));
        }
        self.serve_all(&asked, clients);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.feed.as_ref().map(AsFd::as_fd)
    }

    fn disk_failure(&self) -> Option<String> {
        self.fails.clone()
    }

    fn must_end(&mut self) -> Option<ServiceError> {
        self.must_end.take()
    }
}

impl<D: Disk> History<D> {
    /// Creates the service without a feed.
    fn of(disk: D, quotas: ServiceQuotas) -> Self {
        let series = usize::try_from(quotas.history_series).unwrap_or(usize::MAX);
        Self {
            store: Store::new(disk, Bounds { bytes: quotas.history_bytes, series }),
            feed: None,
            fails: None,
            must_end: None,
            said_left_out: false,
            said_unreadable: false,
        }
    }

    /// Stores the samples of a round; logs the first failure and the first success after it.
    fn record(&mut self, round: &Round) {
        let done = self.store.record(round.at, &round.samples);
        let Recorded { left_out, unreadable, .. } = match done {
            Ok(recorded) => recorded,
            Err(error) => return self.failed(error),
        };
        if self.fails.take().is_some() {
            info!("stored figures again; those of the time before are missing");
        }
        if left_out > 0 && !std::mem::replace(&mut self.said_left_out, true) {
            let hint = "raise `series` in [history]; links and used ports come first";
            warn!(series = left_out, hint, "left out the history of some series");
        }
        if unreadable > 0 && !std::mem::replace(&mut self.said_unreadable, true) {
            let hint = "check the system's messages about the disk (dmesg)";
            warn!(blocks = unreadable, hint, "left out a damaged part of the history");
        }
    }

    fn failed(&mut self, error: DiskError) {
        if let DiskError::Damaged(_) = error {
            error!(%error, "the history's file was damaged");
            self.must_end = Some(ServiceError::Open(error.into()));
            return;
        }
        if self.fails.replace(error.to_string()).is_none() {
            let hint = "the history has a gap until it succeeds; nothing else is affected";
            error!(%error, hint, "could not store figures");
        }
    }

    fn serve_all(&mut self, asked: &[ClientRequest], clients: &mut Clients) {
        for ClientRequest { client, id, request } in asked {
            let may_read = clients.rights(*client).is_some_and(|rights| rights.history);
            let answer = match serde_json::from_slice(request) {
                Err(_) => refused("the request is not of this version"),
                Ok(request) if may_read => self.answer(request),
                Ok(_) => refused("you may not read the history"),
            };
            let body = serde_json::to_vec(&answer).expect("replies consist of text and numbers");
            clients.answer(Reply { client: *client, id: *id, more: false, body: &body });
        }
    }

    fn answer(&mut self, request: HistoryRequest) -> HistoryReply {
        let done = match request {
            HistoryRequest::Series { after } => {
                let page = self.store.series(&after, MAX_SERIES);
                page.map(|(series, more)| HistoryReply::Series { series, more })
            }
            HistoryRequest::Read { series, from, to, step } => {
                let Ok(name) = series.parse() else { return HistoryReply::NoSeries };
                if from >= to {
                    return refused("the time ends before it begins");
                }
                let page = self.store.read(&name, (from, to), step);
                page.map(|page| page.map_or(HistoryReply::NoSeries, points))
            }
        };
        done.unwrap_or_else(|error| {
            let reply = refused(&format!("the history cannot be read: {error}"));
            if let DiskError::Damaged(_) = error {
                self.failed(error);
            }
            reply
        })
    }
}

fn points(page: Page) -> HistoryReply {
    let row = |(at, it): (u64, point::Sums)| (at, u64::from(it.count), it.min, it.max, it.sum);
    let points = page.points.into_iter().map(row).collect();
    HistoryReply::Points { step: page.step, points, next: page.next }
}

fn refused(why: &str) -> HistoryReply {
    HistoryReply::Refused { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use control::history::{Metric, SeriesName, Subject};

    use super::directory::Sample;
    use super::*;

    fn history() -> History {
        History::of(tempfile::tempfile().unwrap(), ServiceQuotas::default())
    }

    fn round(at: u64, value: u64) -> Round {
        let name = SeriesName { subject: Subject::Network, metric: Metric::Hosts };
        Round { at, samples: vec![Sample { name, value, is_used: true }] }
    }

    fn read(series: &str, from: u64, to: u64) -> HistoryRequest {
        HistoryRequest::Read { series: series.into(), from, to, step: 60 }
    }

    #[test]
    fn operators_read_what_was_recorded() {
        let mut history = history();
        history.record(&round(6_000, 3));
        history.record(&round(6_010, 5));
        let series = HistoryReply::Series { series: vec!["network hosts".into()], more: false };
        assert_eq!(history.answer(HistoryRequest::Series { after: String::new() }), series);
        let points = vec![(6_000, 2, 3, 5, 8)];
        let expected = HistoryReply::Points { step: 60, points, next: None };
        assert_eq!(history.answer(read("network hosts", 0, 7_000)), expected);
        assert_eq!(history.answer(read("network switches", 0, 7_000)), HistoryReply::NoSeries);
        assert_eq!(history.answer(read("\u{202e}", 0, 7_000)), HistoryReply::NoSeries);
        let reply = history.answer(read("network hosts", 7, 7));
        assert!(matches!(reply, HistoryReply::Refused { .. }), "{reply:?}");
    }

    #[test]
    fn clients_need_the_right() {
        let (ours, theirs) = sys::packets::Packets::pair().unwrap();
        let mut clients = Clients::default();
        let client = control::service::ServiceClient {
            app: 1,
            name: "app".into(),
            rights: control::service::ClientRights::default(),
        };
        let client = clients.add(client, theirs.into_fd());
        let request = serde_json::to_vec(&read("network hosts", 0, 1)).unwrap();
        history().serve_all(&[ClientRequest { client, id: 1, request }], &mut clients);
        let mut room = vec![0; 1024];
        let (size, _) = ours.receive(&mut room).unwrap();
        let text = String::from_utf8_lossy(&room[..size]).into_owned();
        assert!(text.contains("you may not read the history"), "{text}");
    }

    #[test]
    fn damaged_file_ends_the_process() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 8192], 0).unwrap();
        let mut history = History::of(file, ServiceQuotas::default());
        history.record(&round(6_000, 3));
        let why = history.must_end.take();
        assert!(
            matches!(why, Some(ServiceError::Open(OpenError::Disk(DiskError::Damaged(_))))),
            "{why:?}"
        );
    }
}
