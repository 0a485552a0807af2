//! The files, sockets and demotions on the invented disk.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use control::app::Installation;
use control::kernel::{AnnouncedApp, KernelRequest, ListensAt, PlainTcp, Southbound, Tuning};
use control::northbound::{Credentials, NorthboundRequest, NorthboundSettings, OfctlRest};
use control::service::ServiceSandbox;
use supervisor::app::Listeners;
use supervisor::effects::{Attached, Fd};
use supervisor::files::{Contents, FileSource, Fingerprint};
use supervisor::interface::Interface;
use supervisor::kernel::KernelStart;
use supervisor::programs::Demotions;

use super::{Disk, Object, sha256};

impl Listeners for Disk {
    fn listen(&mut self) -> Result<Vec<Fd>, String> {
        if self.take_out_of_descriptors() {
            return Err("its address is taken".into());
        }
        Ok(vec![self.shared()])
    }

    fn restore(&self) {}
}

impl FileSource for Object {
    fn read(&mut self, app: &str) -> Result<Contents, String> {
        let content = self.disk.0.borrow();
        if content.unreadable.contains(app) {
            return Err(format!("could not read /apps/{app}.so"));
        }
        let object = self.bound.or_else(|| Some(content.versions.get(app)?.installed));
        let object = object.ok_or("there is no object")?;
        let files = Fingerprint { sha256: sha256(object), ..Fingerprint::default() };
        Ok(Contents { code: content.fd.clone(), code_sha256: files.sha256.clone(), files })
    }

    fn refusal(&self) -> Option<&str> {
        None
    }

    fn object_path(&self) -> &Path {
        &self.path
    }

    fn is_object_watched(&self) -> bool {
        self.bound.is_none()
    }

    fn config_path(&self) -> Option<&Path> {
        None
    }
}

impl Disk {
    fn listeners(&self) -> Vec<ListensAt> {
        let at = |address| ListensAt { address, protocol: Southbound::OpenFlow };
        self.addresses().into_iter().map(at).collect()
    }
}

impl KernelStart for Disk {
    fn request(
        &mut self,
        run_as: Option<u32>,
        apps: Vec<AnnouncedApp>,
    ) -> Result<(KernelRequest, Vec<Fd>), String> {
        if self.take_out_of_descriptors() {
            return Err("the monitor can open no more descriptors".into());
        }
        let start = KernelRequest::Start {
            listeners: self.listeners(),
            run_as,
            apps,
            plain: PlainTcp::Loopback,
            tls: false,
            workers: Some(2),
            tuning: Tuning::default(),
            installation: Installation(1),
        };
        Ok((start, vec![self.shared()]))
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([127, 0, 0, 1], 6653))]
    }
}

impl Interface for Disk {
    fn start(
        &mut self,
        sandbox: Option<ServiceSandbox>,
    ) -> Result<(NorthboundRequest, Vec<Attached>), String> {
        if self.take_out_of_descriptors() {
            return Err("the monitor can open no more descriptors".into());
        }
        let config::Northbound { loopback, names, .. } = config::Northbound::default();
        let request = NorthboundRequest::Start {
            sandbox,
            listeners: Vec::new(),
            settings: NorthboundSettings { loopback, names, uid: 1000, ofctl: OfctlRest::Off },
            credentials: no_credentials(),
            peers: false,
            keys: false,
        };
        Ok((request, vec![Attached::Fd(self.shared()), Attached::Requests]))
    }

    fn credentials(&self) -> NorthboundRequest {
        NorthboundRequest::Credentials(no_credentials())
    }

    fn used(&mut self, _: &str) {}

    fn listen_for_apps(&mut self) -> Option<(NorthboundRequest, Fd)> {
        None
    }

    fn app_routes(&self) -> Option<SocketAddr> {
        None
    }

    fn api(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([127, 0, 0, 1], 8181))]
    }
}

fn no_credentials() -> Credentials {
    Credentials { tokens: Vec::new(), session_key: String::new(), revoked: Vec::new() }
}

/// The file of demotions, with a copy in memory as [`Demotions`] wants it.
#[derive(Debug)]
pub(crate) struct DemotionFile {
    disk: Disk,
    apps: BTreeMap<String, String>,
}

impl DemotionFile {
    /// Reads the file.
    pub(crate) fn read(disk: &Disk) -> Self {
        Self { disk: disk.clone(), apps: disk.0.borrow().demoted.clone() }
    }
}

impl Demotions for DemotionFile {
    fn why(&self, app: &str) -> Option<&str> {
        self.apps.get(app).map(String::as_str)
    }

    fn record(&mut self, app: &str, why: &str) {
        self.apps.insert(app.into(), why.into());
        if !self.disk.is_full() {
            self.disk.0.borrow_mut().demoted = self.apps.clone();
        }
    }

    fn clear(&mut self, app: &str) -> io::Result<bool> {
        if self.disk.is_full() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let was_demoted = self.apps.remove(app).is_some();
        self.disk.0.borrow_mut().demoted = self.apps.clone();
        Ok(was_demoted)
    }
}
