//! Prepares apps on this machine, a module for each way to host them.
//!
//! [`Host`] is the monitor's part of a hosting, [`HOSTS`] the table of all. Everything else in the monitor asks the hosting of an app
//! through [`of`], or reads its properties ([`control::hosting`]).

pub mod python;
mod shared_object;
mod sockets;

use std::fmt;

use control::hosting::Hosting;
use control::zone::GuestSettings;
use supervisor::files::ModuleHashes;
use supervisor::spec::{AppSpec, Runtime};

use self::python::Python;
use self::shared_object::SharedObject;
pub(crate) use self::sockets::Sockets;
use crate::error::StartError;
use crate::installation::Installation;
use crate::object::Object;

/// What a hosting needs on this machine. The methods start nothing, and run no code of an app.
pub(crate) trait Host: fmt::Debug + Sync {
    /// Finds the program that runs the zone of the app `app`, its arguments, and the files that its sandbox must grant.
    ///
    /// # Errors
    /// A part of the program is missing; the error says how to install it.
    fn runtime(&self, app: &str, installation: &Installation) -> Result<Runtime, StartError>;

    /// Checks, without running it, that the content of a file can be the object of an app.
    ///
    /// # Errors
    /// Why it cannot, as a phrase.
    fn check(&self, object: &[u8]) -> Result<(), &'static str>;

    /// What the operator can do about an object that cannot be loaded.
    fn remedy(&self) -> &'static str;

    /// The settings with which the zone runs the app. The descriptors of [`Sockets`] for the settings' `listeners` follow them.
    fn settings(&self, spec: &AppSpec, object: &Object) -> GuestSettings;

    /// The files beside the object whose change is a change of the app, if the hosting knows some.
    fn other_files(&self, spec: &AppSpec, object: &Object) -> Option<Box<dyn OtherFiles>>;
}

/// Files beside an app's object whose change is a change of the app.
pub(crate) trait OtherFiles: fmt::Debug {
    /// Reads the files as they are now. A file that cannot be read is left out.
    fn read(&self) -> ModuleHashes;
}

/// All hostings. A kernel that loads a shared object needs nothing of its own on this machine.
const HOSTS: &[(Hosting, &dyn Host)] = &[
    (Hosting::USER, &SharedObject),
    (Hosting::KERNEL, &SharedObject),
    (Hosting::PYTHON, &Python { host: Hosting::PYTHON }),
    (Hosting::RYU, &Python { host: Hosting::RYU }),
];

/// The monitor's part of a hosting.
pub(crate) fn of(hosting: Hosting) -> &'static dyn Host {
    let row = HOSTS.iter().find(|(it, _)| *it == hosting);
    row.map(|(_, host)| *host).expect("each hosting has a row, as a test checks")
}
