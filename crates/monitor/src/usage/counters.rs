//! What the kernel counts for the apps, asked for as an operator asks, over a connection of our own.
//!
//! It is asked every now and then and answers when it likes: nobody waits for it here. The monitor shows its counts,
//! alerts apps by them, and ends a zone that handles none of its events ([`silence`](crate::progress::silence)).

use std::os::fd::{AsFd, BorrowedFd};

use kernel::query::{AppCounters, Query, Reply};
use sys::channel::{Channel, ChannelError};

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    kernel: Option<Channel>,
    /// Whether an answer is on its way.
    is_asked: bool,
    latest: Vec<AppCounters>,
}

impl Counters {
    /// Asks, unless an answer is still on its way; over a new connection by `connect` if there is none.
    pub(crate) fn ask(&mut self, connect: impl FnOnce() -> Result<Channel, String>) {
        if self.is_asked {
            return;
        }
        if self.kernel.is_none() {
            self.kernel = connect().ok(); // not while the kernel is away: it will be back
        }
        if let Some(kernel) = &self.kernel {
            match kernel.send(&Query::Apps, &[]) {
                Ok(()) => self.is_asked = true,
                Err(_) => self.kernel_ended(),
            }
        }
    }

    /// What becomes readable when it answers.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().map(AsFd::as_fd)
    }

    /// Takes its answer.
    pub(crate) fn hear(&mut self) -> bool {
        let Some(kernel) = &self.kernel else { return false };
        match kernel.receive::<Reply>() {
            Ok((Reply::Apps(apps), _)) if self.is_asked => {
                (self.is_asked, self.latest) = (false, apps);
                true
            }
            Err(ChannelError::WouldBlock) => false,
            Ok(_) | Err(_) => {
                self.kernel_ended();
                false
            }
        }
    }

    /// The kernel that was asked is no more: the next one counts from 0.
    pub(crate) fn kernel_ended(&mut self) {
        *self = Self::default();
    }

    /// What it said last of an app.
    pub(crate) fn of(&self, app: &str) -> Option<&AppCounters> {
        self.latest.iter().find(|it| it.name == app)
    }
}
