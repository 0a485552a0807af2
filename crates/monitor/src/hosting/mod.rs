//! Prepares apps on this machine, a module for each way to host them.
//!
//! [`Host`] is the monitor's part of a hosting, [`HOSTS`] the table of all. Everything else in the monitor asks the hosting of an app
//! through [`of`], or reads its properties ([`control::hosting`]).

#[cfg(test)]
mod echo;
pub mod python;
mod shared_object;
mod sockets;
mod wasm;

use std::fmt;

use control::hosting::Hosting;
use control::zone::GuestSettings;
use supervisor::effects::Fd;
use supervisor::files::ModuleHashes;
use supervisor::program::Executable;
use supervisor::spec::{AppSpec, Runtime};

use self::python::Python;
use self::shared_object::SharedObject;
pub(crate) use self::sockets::Sockets;
use self::wasm::Wasm;
use crate::error::StartError;
use crate::installation::Installation;
use crate::object::Object;

/// Prepares the apps of a hosting on this machine. The methods start nothing, and run no code of an app.
pub(crate) trait Host: fmt::Debug + Sync {
    /// Finds the program that runs the zone of the app `app`, its arguments, and the files that its sandbox must grant.
    ///
    /// # Errors
    /// A part of the program is missing; the error says how to install it.
    fn runtime(&self, app: &str, installation: &Installation) -> Result<Runtime, StartError>;

    /// Finds the program of a kernel that hosts such apps, if the usual one does not. Asked only for hostings in the kernel.
    ///
    /// # Errors
    /// It is missing; the error says how to install it.
    fn kernel(&self, _installation: &Installation) -> Result<Option<Executable>, StartError> {
        Ok(None)
    }

    /// Checks, without running it, that the content of a file can be the object of an app.
    ///
    /// # Errors
    /// Why it cannot, as a phrase.
    fn check(&self, object: &[u8]) -> Result<(), &'static str>;

    /// The remedy for an object that cannot be loaded, for the operator.
    fn remedy(&self) -> &'static str;

    /// Makes the code of an object, if the zone runs other bytes than those of the object. This may wait for another program, so the
    /// event loop does not call it.
    fn prepare(&self, _app: &str, _object: &mut Object, _installation: &Installation) {}

    /// The code of the object with this digest and the code's own digest; `None` if the zone runs the object itself.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn code(&self, _sha256: &str) -> Result<Option<Code>, String> {
        Ok(None)
    }

    /// The settings with which the zone runs the app. The descriptors of [`Sockets`] for the settings' `listeners` follow them.
    fn settings(&self, spec: &AppSpec, object: &Object) -> GuestSettings;

    /// The files beside the object whose change is a change of the app, if the hosting knows some.
    fn other_files(&self, spec: &AppSpec, object: &Object) -> Option<Box<dyn OtherFiles>>;
}

/// The bytes that a zone runs, with their SHA-256.
pub(crate) type Code = (Fd, String);

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
    (Hosting::WASM, &Wasm),
    (Hosting::WASM_IN_KERNEL, &Wasm),
    #[cfg(test)]
    (echo::ECHO, &echo::Echo),
];

/// The monitor's part of a hosting.
pub(crate) fn of(hosting: Hosting) -> &'static dyn Host {
    let row = HOSTS.iter().find(|(it, _)| *it == hosting);
    row.map(|(_, host)| *host).expect("each hosting has a row, as a test checks")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::{AppConfig, Config, Require};
    use control::policy::Policy;
    use supervisor::spec::Origin;

    use super::echo::ECHO;
    use super::*;
    use crate::choice::App;
    use crate::object::ObjectFile;
    use crate::trial_load;

    #[test]
    fn each_hosting_has_one_row() {
        for hosting in Hosting::ALL.into_iter().chain([ECHO]) {
            let rows = HOSTS.iter().filter(|(it, _)| *it == hosting).count();
            assert_eq!(rows, 1, "{hosting:?}");
            assert!(!of(hosting).remedy().is_empty());
        }
    }

    /// An app of the test hosting with the object in this file.
    fn app(object: &Path) -> App {
        let mut keys = AppConfig::hosted_by("a", ECHO);
        keys.host_keys.options.insert("word".into(), "hi".into());
        keys.host_keys.listen.push(("echo".into(), "127.0.0.1:1".parse().unwrap()));
        let object = Object::File(ObjectFile::new(object.to_owned()));
        let found = (object, Origin::Unsigned);
        let installation = Installation::of("/nowhere");
        App::of(keys, Policy::default(), found, &Config::default(), &installation).unwrap()
    }

    #[test]
    fn app_of_another_hosting_is_loaded_by_its_own_program() {
        let dir = tempfile::tempdir().unwrap();
        let object = dir.path().join("a.echo");
        std::fs::write(&object, "echo 1").unwrap();
        let mut good = app(&object);
        assert_eq!(of(ECHO).check(b"echo 1"), Ok(()));
        trial_load::load(&mut good, &[], Require::Best).unwrap();
        std::fs::write(&object, "echo 2").unwrap();
        let why = trial_load::load(&mut app(&object), &[], Require::Best).unwrap_err();
        assert!(why.starts_with("echo 2 [") && why.contains("word"), "{why}");
        assert_eq!(of(ECHO).check(b"\x7fELF"), Err("it does not begin with echo"));
    }

    #[test]
    fn other_hosting_replaces_the_process() {
        let [echo, user] = [app(Path::new("/a.echo")).spec, {
            let mut app = app(Path::new("/a.echo"));
            app.spec.keys.host = Hosting::USER;
            app.spec
        }];
        assert_eq!(user.differ_for_process(&echo), ["host, python-path, options or listen"]);
        assert_eq!(echo.readable(), [Path::new("/usr/share/echo")]);
    }
}
