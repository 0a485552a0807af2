//! Reads where switches connect, and Rosemary's directories and threads: the table `[controller]`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::kernel::{MAX_WORKERS, PlainTcp, Tuning};

use super::orphans::Orphans;
use super::tuning;
use super::value::Table;
use super::words::path;

/// The keys of `[controller]`.
pub const CONTROLLER_KEYS: [&str; 14] = [
    "listen",
    "vtep-listen",
    "openflow",
    "plain",
    "tls-dir",
    "workers",
    "pin",
    "read-bytes",
    "ring-bytes",
    "batch",
    "switch-ports",
    "orphans",
    "runtime-dir",
    "state-dir",
];

/// The settings of `[controller]`, as the fields of [`Config`](super::Config) with these names.
#[derive(Debug, Default)]
pub(super) struct Controller {
    pub(super) listen: Vec<SocketAddr>,
    pub(super) vtep_listen: Vec<SocketAddr>,
    pub(super) plain: Option<PlainTcp>,
    pub(super) tls_dir: Option<PathBuf>,
    pub(super) workers: Option<u16>,
    pub(super) tuning: Tuning,
    pub(super) orphans: Orphans,
    pub(super) runtime_dir: Option<PathBuf>,
    pub(super) state_dir: Option<PathBuf>,
}

impl Controller {
    /// Reads `[controller]` of the file `top`. Paths are relative to `base`.
    pub(super) fn read(top: &Table<'_>, base: &Path) -> Self {
        let table = top.get("controller").and_then(|it| it.table("[controller]", &CONTROLLER_KEYS));
        let Some(table) = table else { return Self::default() };
        let address = "an address and a port such as \"127.0.0.1:6653\", \"0.0.0.0:6653\" (all addresses \
                       of this machine) or \"[::1]:6653\"";
        let plain = r#""loopback" (switches on this machine), "any" (all switches) or "never""#;
        let workers = format!("a number from 1 to {MAX_WORKERS}");
        let dir = |key| -> Option<PathBuf> {
            Some(base.join(table.read(key, "the path of a directory", path)?))
        };
        let addresses = |key| table.list(key, address, |it| it.text()?.parse().ok());
        Self {
            listen: addresses("listen").unwrap_or_default(),
            vtep_listen: addresses("vtep-listen").unwrap_or_default(),
            plain: table.read("plain", plain, |it| it.text()?.parse().ok()),
            tls_dir: dir("tls-dir"),
            workers: table.read("workers", &workers, |it| {
                let workers = u16::try_from(it.number()?).ok()?;
                (1..=MAX_WORKERS).contains(&workers).then_some(workers)
            }),
            tuning: tuning::read(&table),
            orphans: Orphans::read(&table),
            runtime_dir: dir("runtime-dir"),
            state_dir: dir("state-dir"),
        }
    }
}
