//! Prepares apps in Python, those of Ryu among them, and finds their interpreter.
//!
//! `make python` makes a virtual environment with the SDK and notes in `rosemary-python.json` how to start it. The monitor
//! reads this note and no other file of it, and executes nothing to learn more.

mod modules;

use std::io;
use std::path::{Path, PathBuf};

use config::{SERVE_HTTP, ServiceRight};
use control::hosting::Hosting;
use control::zone::{GuestSettings, ObjectForm};
use serde::Deserialize;
use supervisor::program::Executable;
use supervisor::spec::{AppSpec, Runtime};

use self::modules::Modules;
use super::shared_object::is_shared_object;
use super::{Host, OtherFiles};
use crate::error::StartError;
use crate::installation::{self, Installation};
use crate::object::Object;

/// The name of the note in the virtual environment.
const NOTE: &str = "rosemary-python.json";

/// The most bytes of the note.
const MAX_NOTE: u64 = 64 * 1024;

/// The interpreter for apps in Python, as the note in its virtual environment describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interpreter {
    /// Its program.
    #[serde(rename = "interpreter")]
    pub program: PathBuf,
    /// The script that confines the process.
    pub boot: PathBuf,
    /// Directories with the interpreter's files, which each app may read.
    pub read: Vec<PathBuf>,
    /// Whether `rosemary-ryu` is installed.
    #[serde(default)]
    pub ryu: bool,
}

impl Interpreter {
    /// The directories with the interpreter's packages.
    fn dirs(&self) -> impl Iterator<Item = &Path> {
        // Those of the system are not in the note: every zone sees them.
        let own = self.boot.ancestors().nth(2).filter(|own| !self.read.iter().any(|it| it == own));
        self.read.iter().map(PathBuf::as_path).chain(own)
    }

    /// The command that starts a zone: isolated from the user's environment (`-I`), without `site` (`-S`).
    fn command(&self) -> Executable {
        let args = ["-I", "-S", "-B", "-X", "utf8"].map(Into::into).into_iter();
        Executable {
            path: self.program.clone(),
            args: args.chain([self.boot.clone().into()]).collect(),
        }
    }
}

/// Finds the interpreter in the virtual environment of the running program's installation.
///
/// # Errors
/// [`StartError::NoPython`].
pub fn interpreter() -> Result<Interpreter, StartError> {
    let looked = installation::python_dirs()?;
    let notes: Vec<PathBuf> = looked.iter().map(|dir| dir.join(NOTE)).collect();
    let note = notes.iter().find(|note| note.is_file());
    let note = note.ok_or_else(|| StartError::NoPython { looked: looked.clone() })?;
    read(note).map_err(|source| StartError::Path {
        what: "read",
        path: note.clone(),
        hint: "make it again with `make python`",
        source,
    })
}

fn read(note: &Path) -> io::Result<Interpreter> {
    let note: Interpreter = serde_json::from_slice(&installation::read_file(note, MAX_NOTE)?)?;
    let relative = [&note.program, &note.boot].into_iter().chain(&note.read);
    if let Some(path) = relative.into_iter().find(|path| !path.is_absolute()) {
        return Err(io::Error::other(format!("{} is not absolute", path.display())));
    }
    Ok(note)
}

/// Whether a directory of the interpreter's packages contains this file.
pub fn has_file(interpreter: &Interpreter, file: &Path) -> bool {
    interpreter.dirs().any(|dir| dir.join(file).is_file())
}

/// The hosting of modules in Python.
#[derive(Debug)]
pub(super) struct Python {
    /// Which of those with this interpreter.
    pub(super) host: Hosting,
}

impl Host for Python {
    fn runtime(&self, app: &str, _installation: &Installation) -> Result<Runtime, StartError> {
        let interpreter = interpreter()?;
        if self.host == Hosting::RYU && !interpreter.ryu {
            return Err(StartError::NoRyu { app: app.to_owned() });
        }
        Ok(Runtime {
            host: self.host,
            program: interpreter.command(),
            modules: interpreter.dirs().map(Path::to_owned).collect(),
            read: interpreter.read,
            kernel: None,
        })
    }

    fn check(&self, object: &[u8]) -> Result<(), &'static str> {
        // Whether the source is valid, only the interpreter can say.
        if is_shared_object(object) {
            return Err("it is a shared object, and the app's `host` expects a file in Python");
        }
        Ok(())
    }

    fn remedy(&self) -> &'static str {
        "correct the file, or `object`"
    }

    fn settings(&self, spec: &AppSpec, object: &Object) -> GuestSettings {
        let capabilities = spec.policy.capabilities.iter();
        let capabilities = capabilities.map(|grant| grant.capability.to_string());
        let serves_http = spec.keys.service_rights.contains(&ServiceRight::ServeHttp);
        let keys = &spec.keys.host_keys;
        GuestSettings {
            host: self.host,
            form: match object {
                Object::File(_) => ObjectForm::File,
                Object::Module { .. } => ObjectForm::Module,
                Object::Packaged { .. } | Object::Unusable { .. } => ObjectForm::Archive,
            },
            object: object.path().display().to_string(),
            path: keys.path.clone(),
            options: keys.options.clone(),
            capabilities: capabilities.chain(serves_http.then(|| SERVE_HTTP.to_owned())).collect(),
            listeners: keys.listen.clone(),
        }
    }

    fn other_files(&self, spec: &AppSpec, object: &Object) -> Option<Box<dyn OtherFiles>> {
        Some(Box::new(Modules::of(spec, object)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_with_relative_paths_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NOTE);
        std::fs::write(&path, r#"{"interpreter": "/p", "boot": "/b", "read": ["/r"]}"#).unwrap();
        let interpreter = read(&path).unwrap();
        assert!(!interpreter.ryu);
        let command = interpreter.command();
        assert_eq!((command.path, command.args.len()), ("/p".into(), 6));
        std::fs::write(&path, r#"{"interpreter": "/p", "boot": "b", "read": []}"#).unwrap();
        assert!(read(&path).is_err());
    }
}
