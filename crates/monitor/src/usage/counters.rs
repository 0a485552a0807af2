//! Requests the apps' counters from the kernel, over a connection of the monitor's own.
//!
//! The monitor asks as an operator would, and does not wait for the answer. It shows the counters to operators, alerts
//! apps by them, and kills a zone that handles none of its events ([`hang::events`](supervisor::hang::events)).

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use control::query::{AppCounters, KernelQuery, KernelQueryReply};
use sys::channel::{Channel, ChannelError};

/// The longest time in which a kernel that accepts switches answers. A kernel that hangs is killed before this.
const ANSWER_TIME: Duration = Duration::from_secs(90);

/// The connection to the kernel, and the latest counters.
#[derive(Debug, Default)]
pub(crate) struct KernelCounters {
    kernel: Option<Channel>,
    /// When the request was sent that is unanswered.
    pending_since: Option<Instant>,
    latest: Vec<AppCounters>,
}

impl KernelCounters {
    /// Returns whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.kernel.is_some()
    }

    /// Uses a new connection to the kernel.
    pub(crate) fn connected(&mut self, kernel: Channel) {
        self.kernel = Some(kernel);
    }

    /// Requests the counters, unless there is no connection or a request is unanswered.
    pub(crate) fn request(&mut self, now: Instant) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.pending_since.is_none()) {
            match kernel.send(&KernelQuery::Apps, &[]) {
                Ok(()) => self.pending_since = Some(now),
                Err(_) => self.disconnect(),
            }
        }
    }

    /// Readable when the kernel has answered.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().map(AsFd::as_fd)
    }

    /// Receives the kernel's answer. Returns whether there are new counters.
    pub(crate) fn receive(&mut self) -> bool {
        let Some(kernel) = &self.kernel else { return false };
        match kernel.receive_alone::<KernelQueryReply>() {
            Ok(KernelQueryReply::Apps(apps)) if self.pending_since.is_some() => {
                (self.pending_since, self.latest) = (None, apps);
                true
            }
            Err(ChannelError::WouldBlock) => false,
            Ok(_) | Err(_) => {
                self.disconnect();
                false
            }
        }
    }

    /// Whether the kernel has answered each request in time.
    pub(crate) fn are_answered(&self, now: Instant) -> bool {
        self.pending_since.is_none_or(|at| now.saturating_duration_since(at) < ANSWER_TIME)
    }

    /// Forgets the connection and the counters. The next kernel counts from 0.
    pub(crate) fn disconnect(&mut self) {
        *self = Self::default();
    }

    /// The latest counters of the app with this name.
    pub(crate) fn of(&self, app: &str) -> Option<&AppCounters> {
        self.latest.iter().find(|it| it.name == app)
    }
}
