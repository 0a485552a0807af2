//! Loads and calls apps that run in this process, a module for each hosting that the kernel carries out.
//!
//! An [`Artifact`] is the loaded code of an app, a [`Guest`] one instance of it. `hosted.rs` queues the records of a guest, whatever
//! its hosting. Apps outside of this process are reached by rings, so their hostings need nothing here.

#[cfg(test)]
pub(in crate::app_port) mod bytes;
mod host;
mod shared_object;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use control::hosting::Hosting;
use sdk::abi::host::{Answer, Failed, Gathered};

pub(crate) use self::host::KernelHost;

/// An instance of an app in this process. It belongs to one worker.
pub(crate) trait Guest: fmt::Debug {
    /// The version that the app states.
    fn version(&self) -> &str;

    /// What carries out the app's calls.
    fn host(&mut self) -> &mut KernelHost;

    /// Calls the app with the oldest `count` records, or with none as a wake-up.
    ///
    /// # Errors
    /// The app must not be called again, and the messages of this call must not be sent.
    fn on_batch(&mut self, now_ns: u64, records: &Gathered, count: usize)
    -> Result<Answer, Failed>;

    /// Ends an app that has failed: none of its code runs again, not even its destructor.
    fn abandon(self: Box<Self>);
}

/// The code of an app, as each worker makes an instance of it.
pub(crate) trait Artifact: fmt::Debug + Send + Sync {
    /// Makes an instance that calls `host`.
    ///
    /// # Errors
    /// Why the code makes none, as a phrase.
    fn instance(&self, host: KernelHost) -> Result<Box<dyn Guest>, String>;
}

/// The content of an app's object.
#[derive(Debug)]
pub(crate) enum Code<'a> {
    /// A read-only file in the kernel's private root directory.
    Copy(&'a Path),
    /// Sealed memory.
    Sealed(OwnedFd),
}

/// Loads the code of an app.
type Load = fn(Code<'_>) -> io::Result<Box<dyn Artifact>>;

/// The hostings in this process.
const HOSTINGS: &[(Hosting, Load)] = &[
    (Hosting::KERNEL, shared_object::load),
    #[cfg(test)]
    (bytes::BYTES, bytes::load),
];

/// Loads the code of an app with this hosting.
///
/// # Errors
/// It is no code of the hosting, or needs something that is missing; or this process does not carry out the hosting.
pub(crate) fn load(hosting: Hosting, code: Code<'_>) -> io::Result<Box<dyn Artifact>> {
    let row = HOSTINGS.iter().find(|(it, _)| *it == hosting);
    let (_, load) = row.ok_or_else(|| {
        let name = hosting.name;
        io::Error::other(format!("the kernel runs no app with host = {name:?}"))
    })?;
    load(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hosting_in_the_kernel_loads_code() {
        for hosting in Hosting::ALL {
            let loads = HOSTINGS.iter().any(|(it, _)| *it == hosting);
            assert_eq!(loads, hosting.is_in_kernel(), "{hosting:?}");
        }
        let nothing = sys::shm::sealed_copy("object", b"").unwrap();
        let error = load(Hosting::PYTHON, Code::Sealed(nothing)).unwrap_err().to_string();
        assert_eq!(error, "the kernel runs no app with host = \"python\"");
    }
}
