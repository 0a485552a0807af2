//! What every kernel receives at its start: listening sockets, TLS keys, and how its workers run.

use std::io;
use std::os::fd::AsFd;

use control::app::{AbsentApp, Installation};
use control::kernel::{AnnouncedApp, KernelRequest, MAX_WORKERS, PlainTcp, Tuning};

use crate::keys::SealedKeys;
use crate::listen::Listener;
use crate::processes::duplicates;
use supervisor::effects::Fd;

/// The settings with which each kernel is started.
#[derive(Debug)]
pub(crate) struct KernelSettings {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) plain: PlainTcp,
    pub(crate) keys: Option<SealedKeys>,
    /// The number of worker threads; `None` for one per CPU.
    pub(crate) workers: Option<u16>,
    pub(crate) tuning: Tuning,
    /// The apps that have a number and do not run.
    pub(crate) absent: Vec<AbsentApp>,
    /// The installation, for the cookies of the kernel's own flows.
    pub(crate) installation: Installation,
}

impl KernelSettings {
    /// The most bytes of rings that a kernel makes for one app: two rings for each worker.
    pub(crate) fn ring_bytes(&self) -> u64 {
        // Without a set number, a later kernel may find more CPUs than there are now.
        let workers = u64::from(self.workers.unwrap_or(MAX_WORKERS));
        2 * workers * sys::ring::memory_size(self.tuning.ring) as u64
    }

    /// The addresses at which switches connect.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = std::net::SocketAddr> {
        self.listeners.iter().map(Listener::address)
    }

    /// The start request for a kernel with these apps, and the descriptors that belong to it. The listening sockets are as at the
    /// beginning, whatever an earlier kernel did with them.
    ///
    /// # Errors
    /// The monitor can open no more descriptors.
    pub(crate) fn start_request(
        &mut self,
        run_as: Option<u32>,
        apps: Vec<AnnouncedApp>,
    ) -> io::Result<(KernelRequest, Vec<Fd>)> {
        self.listeners.iter_mut().for_each(Listener::renew);
        let listeners = self.addresses().collect();
        let tls = self.keys.is_some();
        let sockets = self.listeners.iter().map(AsFd::as_fd);
        let fds = duplicates(sockets.chain(self.keys.iter().flat_map(SealedKeys::fds)))?;
        let Self { plain, workers, tuning, installation, .. } = *self;
        let start = KernelRequest::Start {
            listeners,
            run_as,
            apps,
            plain,
            tls,
            workers,
            tuning,
            installation,
        };
        Ok((start, fds))
    }
}
