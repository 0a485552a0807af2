//! How switches come in, for each kernel anew.

use std::os::fd::{AsFd, BorrowedFd};

use kernel::control::{self, Plain, Request, Tuning};
use kernel::pool::MAX_WORKERS;

use crate::keys::SealedKeys;
use crate::listen::Listener;

/// How switches come in; every kernel gets the same.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) plain: Plain,
    pub(crate) keys: Option<SealedKeys>,
    /// How many threads serve them; `None` for one per CPU.
    pub(crate) workers: Option<u16>,
    /// How they work.
    pub(crate) tuning: Tuning,
}

impl Entrance {
    /// Most bytes of rings that a kernel makes for one app: two rings for each worker. Where the number of workers is
    /// not set, a later kernel may find more CPUs, so this counts with as many workers as there can be.
    pub(super) fn ring_bytes(&self) -> u64 {
        let workers = u64::from(self.workers.unwrap_or(MAX_WORKERS));
        2 * workers * sys::ring::memory_size(self.tuning.ring) as u64
    }

    /// What tells a kernel, and the descriptors that go with it.
    pub(super) fn start(
        &self,
        run_as: Option<u32>,
        apps: Vec<control::App>,
    ) -> (Request, Vec<BorrowedFd<'_>>) {
        let listeners = self.listeners.iter().map(Listener::address).collect();
        let tls = self.keys.is_some();
        let sockets = self.listeners.iter().map(AsFd::as_fd);
        let fds = sockets.chain(self.keys.iter().flat_map(SealedKeys::fds)).collect();
        let Self { plain, workers, tuning, .. } = *self;
        (Request::Start { listeners, run_as, apps, plain, tls, workers, tuning }, fds)
    }
}
