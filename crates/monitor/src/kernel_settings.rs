//! What every kernel receives at its start: listening sockets, TLS keys, and how its workers run.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;

use control::app::Installation;
use control::kernel::{AnnouncedApp, KernelRequest, MAX_WORKERS, PlainTcp, Southbound, Tuning};

use crate::keys::SealedKeys;
use crate::listen::Listener;
use crate::processes::duplicates;
use supervisor::effects::Fd;
use supervisor::kernel::KernelStart;

/// The settings with which each kernel is started.
#[derive(Debug)]
pub(crate) struct KernelSettings {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) plain: PlainTcp,
    pub(crate) keys: Option<Rc<SealedKeys>>,
    /// The number of worker threads; `None` for one per CPU.
    pub(crate) workers: Option<u16>,
    pub(crate) tuning: Tuning,
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
}

impl KernelStart for KernelSettings {
    fn request(
        &mut self,
        run_as: Option<u32>,
        apps: Vec<AnnouncedApp>,
    ) -> Result<(KernelRequest, Vec<Fd>), String> {
        self.listeners.iter_mut().for_each(Listener::renew);
        let listeners = self.listeners.iter().map(Listener::listens_at).collect();
        let tls = self.keys.is_some();
        let sockets = self.listeners.iter().map(AsFd::as_fd);
        let fds = duplicates(sockets.chain(self.keys.iter().flat_map(|keys| keys.fds())));
        let fds = fds.map_err(|error| error.to_string())?;
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

    fn addresses(&self) -> Vec<SocketAddr> {
        let of_switches = self.listeners.iter().filter(|it| it.protocol == Southbound::OpenFlow);
        of_switches.map(Listener::address).collect()
    }
}
