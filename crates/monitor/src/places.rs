//! Where the programs are that the monitor starts, and the apps that it loads.
//!
//! Next to the monitor's own program first, so that a build directory works as it is and never
//! mixes with what is installed.

use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use config::user_dir as of_user;
use services::kind::Kind;

use crate::error::StartError;

/// Where packages put programs that people do not call themselves.
const LIBEXEC: &str = "/usr/libexec/rosemary";

/// Where packages put apps.
const APPS: &str = "/usr/lib/rosemary/apps";

/// The longest app object that is read, in bytes.
pub const MAX_OBJECT: u64 = 256 * 1024 * 1024;

/// The programs and objects of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// `rosemary-kernel`.
    pub kernel: PathBuf,
    /// `rosemary-zone`.
    pub zone: PathBuf,
    /// The directory of our own program.
    own: PathBuf,
}

impl Places {
    /// Finds them.
    ///
    /// # Errors
    /// [`StartError::Missing`] names what is missing and where it was looked for.
    pub fn find() -> Result<Self, StartError> {
        let own = own_dir()?;
        Ok(Self {
            kernel: program("rosemary-kernel", &own)?,
            zone: program("rosemary-zone", &own)?,
            own,
        })
    }

    /// Finds the program of a service.
    ///
    /// # Errors
    /// [`StartError::Missing`] names what is missing and where it was looked for.
    pub fn service(&self, service: Kind) -> Result<PathBuf, StartError> {
        program(service.program(), &self.own)
    }

    #[cfg(test)]
    pub(crate) fn of(own: &str) -> Self {
        Self { kernel: "/".into(), zone: "/".into(), own: own.into() }
    }

    /// Finds `rosemary-security`.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    pub fn security() -> Result<PathBuf, StartError> {
        program("rosemary-security", &own_dir()?)
    }

    /// Finds the object of the app `name`, which comes with Rosemary: beside our own program, or where
    /// packages of the system put it. As with the programs there, nobody's signature is asked for: who
    /// can write there can replace the monitor itself. `package` is where it is not installed.
    ///
    /// # Errors
    /// [`StartError::Missing`] names what is missing and where it was looked for.
    pub fn object(&self, name: &str, package: &Path) -> Result<PathBuf, StartError> {
        let what = format!("the app {name}");
        let looked = [
            package.to_owned(),
            self.own.join(format!("examples/lib{}.so", name.replace('-', "_"))),
            Path::new(APPS).join(format!("{name}.so")),
        ];
        let hint = "install its package with `rosemary app install`, or, if it comes with Rosemary, \
                    build it with `make build`";
        first(what, &looked, hint)
    }

    /// Checks that the object of the app `name` is at `path`, where the configuration says.
    ///
    /// # Errors
    /// [`StartError::Missing`], [`StartError::NoFile`], or [`StartError::Path`] if it cannot be looked at.
    pub fn bare(name: &str, path: &Path) -> Result<PathBuf, StartError> {
        let hint = "build it, or correct `object` in the configuration";
        let what = format!("the object of the app {name}");
        match std::fs::metadata(path) {
            Ok(file) if file.is_file() => Ok(path.to_owned()),
            Ok(_) => Err(StartError::NoFile { what, path: path.to_owned(), hint }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StartError::Missing { what, looked: vec![path.to_owned()], hint })
            }
            Err(source) => {
                Err(StartError::Path { what: "look at", path: path.to_owned(), hint, source })
            }
        }
    }
}

/// Finds one of our programs by its name, next to our own program at `own` first.
///
/// # Errors
/// [`StartError::Missing`].
pub fn program(name: &'static str, own: &Path) -> Result<PathBuf, StartError> {
    let looked = [own.join(name), Path::new(LIBEXEC).join(name)];
    first(name.into(), &looked, "build it with `cargo build --workspace`")
}

/// The directory of the program that runs.
///
/// # Errors
/// The system does not say.
pub fn own_dir() -> Result<PathBuf, StartError> {
    let exe = std::env::current_exe()
        .map_err(|source| StartError::System { what: "find the own program", source })?;
    Ok(exe.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Reads an app's object, whole.
///
/// # Errors
/// It is not there, not a regular file, longer than [`MAX_OBJECT`], or cannot be read.
pub fn read_object(path: &Path) -> io::Result<Vec<u8>> {
    read_file(path, MAX_OBJECT)
}

/// Reads a file, whole.
///
/// # Errors
/// It is not there, not a regular file, longer than `most` bytes, or cannot be read.
pub(crate) fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe or a device in the file's place must not keep the monitor waiting.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let too_long = || io::Error::other(format!("it is longer than {most} bytes"));
    if metadata.len() > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?; // it may grow meanwhile
    if bytes.len() as u64 > most {
        return Err(too_long());
    }
    Ok(bytes)
}

fn first(what: String, looked: &[PathBuf], hint: &'static str) -> Result<PathBuf, StartError> {
    looked.iter().find(|path| path.is_file()).cloned().ok_or_else(|| StartError::Missing {
        what,
        looked: looked.to_vec(),
        hint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_told_with_where_it_was_looked_for_and_what_to_build() {
        let error = program("rosemary-none", Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(
            error,
            "rosemary-none is missing; looked for /nowhere/rosemary-none and \
             /usr/libexec/rosemary/rosemary-none; build it with `cargo build --workspace`"
        );
    }

    #[test]
    fn object_is_looked_for_by_the_apps_name_or_only_where_the_operator_says() {
        let places = Places::of("/nowhere");
        let error = places.object("my-app", Path::new("/state/my-app")).unwrap_err().to_string();
        assert!(
            error.contains(
                "looked for /state/my-app and /nowhere/examples/libmy_app.so and /usr/lib/rosemary/apps/my-app.so"
            ),
            "{error}"
        );
        let error = Places::bare("my-app", Path::new("/mine.so")).unwrap_err().to_string();
        assert!(error.contains("looked for /mine.so; build it, or correct `object`"), "{error}");
    }

    #[test]
    fn object_that_is_not_a_file_is_refused_and_not_waited_for() {
        assert!(read_object(Path::new("/dev/zero")).is_err());
        assert!(read_object(Path::new("/nowhere")).is_err());
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert!(read_object(&pipe).is_err());
    }

    #[test]
    fn object_that_is_too_long_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long.so");
        // All hole: as long as no memory has room for.
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_object(&path).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 268435456 bytes");
    }
}
