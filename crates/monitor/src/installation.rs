//! Finds the programs that the monitor starts, and the objects of the apps that it loads.
//!
//! The directory of the monitor's own program comes first. So a build directory works without an installation, and never
//! mixes with one. Next is the installation with the running program in it (`make install PREFIX=...`), then /usr.

use std::io::{self, Read as _};
use std::iter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use control::service::ServiceKind;

use crate::error::StartError;

/// Where system packages install.
const PREFIX: &str = "/usr";

/// Where programs are, below a prefix, that users do not run directly.
const LIBEXEC: &str = "libexec/rosemary";

/// Where apps are, below a prefix.
const APPS: &str = "lib/rosemary/apps";

/// Where the virtual environment for apps in Python is, below a prefix.
const PYTHON: &str = "lib/rosemary/python";

/// The largest size of an app's object, in bytes.
pub const MAX_OBJECT: u64 = 256 * 1024 * 1024;

/// The programs and objects of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// `rosemary-kernel`.
    pub kernel: PathBuf,
    /// `rosemary-zone`.
    pub zone: PathBuf,
    /// The directory of the running program.
    own: PathBuf,
}

impl Installation {
    /// Finds the programs.
    ///
    /// # Errors
    /// [`StartError::Missing`].
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
    /// [`StartError::Missing`].
    pub fn service(&self, service: ServiceKind) -> Result<PathBuf, StartError> {
        program(service.program(), &self.own)
    }

    /// Finds `rosemary-northbound`.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    pub fn northbound(&self) -> Result<PathBuf, StartError> {
        program("rosemary-northbound", &self.own)
    }

    /// Finds the program that hosts apps in WebAssembly.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    pub fn wasm_host(&self) -> Result<PathBuf, StartError> {
        find("rosemary-wasm", &self.own, FOR_WASM)
    }

    /// Finds the kernel that also hosts apps in WebAssembly.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    pub fn wasm_kernel(&self) -> Result<PathBuf, StartError> {
        find("rosemary-kernel-wasm", &self.own, FOR_WASM)
    }

    /// Finds the program that compiles apps in WebAssembly.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    pub fn wasm_compiler(&self) -> Result<PathBuf, StartError> {
        find("rosemary-compile", &self.own, FOR_WASM)
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

    /// Finds the object of the app `name`, which comes with Rosemary: beside the running program, or where system packages
    /// put it.
    ///
    /// No signature is needed: whoever can write there can replace the monitor itself. `package` is the path of a package
    /// that is not installed, for the message.
    ///
    /// # Errors
    /// [`StartError::Missing`].
    pub fn object(&self, name: &str, package: &Path) -> Result<PathBuf, StartError> {
        let built = self.own.join(format!("examples/lib{}.so", name.replace('-', "_")));
        let installed = prefixes(&self.own).map(|it| it.join(APPS).join(format!("{name}.so")));
        let looked: Vec<PathBuf> =
            [package.to_owned(), built].into_iter().chain(installed).collect();
        looked.iter().find(|path| path.is_file()).cloned().ok_or_else(|| StartError::MissingApp {
            app: name.into(),
            looked,
            similar: None,
        })
    }

    /// Returns the names of the apps that come with Rosemary, as far as their directories can be read.
    pub fn app_names(&self) -> Vec<String> {
        let installed = prefixes(&self.own).map(|prefix| (prefix.join(APPS), ""));
        let mut names = Vec::new();
        for (dir, prefix) in iter::once((self.own.join("examples"), "lib")).chain(installed) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let file = entry.file_name();
                let name =
                    file.to_str().and_then(|it| it.strip_prefix(prefix)?.strip_suffix(".so"));
                // Cargo also keeps files with a hyphen and a digest there.
                let name = name.filter(|name| prefix.is_empty() || !name.contains('-'));
                let name = name.map(|name| name.replace('_', "-"));
                names.extend(name.filter(|name| config::is_name(name)));
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Checks that `path`, which the configuration names, is an object of the app `name`.
    ///
    /// # Errors
    /// [`StartError::Missing`], [`StartError::NoFile`], or [`StartError::Path`] if the path cannot be read.
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

/// Finds a program of Rosemary by its name, in the directory `own` first.
///
/// # Errors
/// [`StartError::Missing`].
pub fn program(name: &'static str, own: &Path) -> Result<PathBuf, StartError> {
    find(name, own, "build it with `cargo build --workspace`")
}

/// How to get the programs for apps in WebAssembly, which a build of the workspace does not make.
const FOR_WASM: &str = "build it with `make wasm`";

fn find(name: &'static str, own: &Path, hint: &'static str) -> Result<PathBuf, StartError> {
    let installed = prefixes(own).map(|prefix| prefix.join(LIBEXEC).join(name));
    let looked: Vec<PathBuf> = iter::once(own.join(name)).chain(installed).collect();
    first(name.into(), &looked, hint)
}

/// The prefixes of the installations that a program in the directory `own` may use: its own, if it is installed, and /usr.
fn prefixes(own: &Path) -> impl Iterator<Item = &Path> {
    let above =
        |tail: &str| own.ends_with(tail).then(|| own.ancestors().nth(tail.split('/').count()));
    let own = above("bin").or_else(|| above(LIBEXEC)).flatten();
    own.filter(|prefix| *prefix != Path::new(PREFIX)).into_iter().chain([Path::new(PREFIX)])
}

/// The root of the installation that contains the running program: the directory with `bin` and `libexec`; `None` for a build. A
/// program of the recovery copy belongs to the installation with that copy.
///
/// # Errors
/// The system does not report the running program.
pub fn release_root() -> Result<Option<PathBuf>, StartError> {
    Ok(root_of(&own_dir()?).map(Path::to_owned))
}

fn root_of(own: &Path) -> Option<&Path> {
    let levels = |tail: &str| own.ends_with(tail).then(|| tail.split('/').count());
    let root = own.ancestors().nth(levels("bin").or_else(|| levels(LIBEXEC))?)?;
    let is_copy = root.ends_with(verify::RECOVERY);
    root.ancestors().nth(if is_copy { verify::RECOVERY.split('/').count() } else { 0 })
}

/// The directories in which the virtual environment for apps in Python may be.
///
/// # Errors
/// The system does not report the running program.
pub fn python_dirs() -> Result<Vec<PathBuf>, StartError> {
    let own = own_dir()?;
    // Beside the directory of the build, as all profiles share it.
    let built = own.parent().map(|target| target.join("python"));
    let installed = prefixes(&own).map(|prefix| prefix.join(PYTHON));
    Ok(built.into_iter().chain(installed).collect())
}

/// The directories that may contain Faucet and what it needs: beside the virtual environments of [`python_dirs`].
///
/// # Errors
/// The system does not report the running program.
pub fn faucet_dirs() -> Result<Vec<PathBuf>, StartError> {
    Ok(python_dirs()?.iter().map(|python| python.with_file_name("faucet")).collect())
}

/// The directory of the running program.
///
/// # Errors
/// The system does not report it.
pub fn own_dir() -> Result<PathBuf, StartError> {
    let exe = std::env::current_exe()
        .map_err(|source| StartError::System { what: "find the own program", source })?;
    Ok(exe.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Reads an app's object.
///
/// # Errors
/// It is missing, not a regular file, larger than [`MAX_OBJECT`], or cannot be read.
pub fn read_object(path: &Path) -> io::Result<Vec<u8>> {
    read_file(path, MAX_OBJECT)
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// It is missing, not a regular file, larger than `most` bytes, or cannot be read.
pub(crate) fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // If the path is a pipe or a device, the monitor must not wait for it.
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
    // The file may have grown since its size was read.
    file.take(most + 1).read_to_end(&mut bytes)?;
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
    fn installed_program_uses_its_own_prefix_first() {
        let of = |own: &'static str| prefixes(Path::new(own)).collect::<Vec<_>>();
        assert_eq!(of("/opt/rosemary/bin"), [Path::new("/opt/rosemary"), Path::new("/usr")]);
        assert_eq!(of("/usr/local/libexec/rosemary"), [Path::new("/usr/local"), Path::new("/usr")]);
        assert_eq!(of("/usr/bin"), [Path::new("/usr")]);
        assert_eq!(of("/home/me/rosemary/target/debug"), [Path::new("/usr")]);
    }

    #[test]
    fn recovery_copy_belongs_to_its_installation() {
        let of = |own: &'static str| root_of(Path::new(own)).map(Path::to_owned);
        assert_eq!(of("/usr/bin"), Some("/usr".into()));
        assert_eq!(of("/opt/r/libexec/rosemary"), Some("/opt/r".into()));
        assert_eq!(of("/usr/lib/rosemary/recovery/libexec/rosemary"), Some("/usr".into()));
        assert_eq!(of("/home/me/rosemary/target/debug"), None);
    }

    #[test]
    fn missing_program_error_names_paths_and_remedy() {
        let error = program("rosemary-none", Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(
            error,
            "rosemary-none is missing; looked for /nowhere/rosemary-none and \
             /usr/libexec/rosemary/rosemary-none; build it with `cargo build --workspace`"
        );
    }

    #[test]
    fn missing_object_error_names_paths() {
        let installation = Installation::of("/nowhere");
        let error =
            installation.object("my-app", Path::new("/state/my-app")).unwrap_err().to_string();
        assert!(
            error.contains(
                "looked for /state/my-app and /nowhere/examples/libmy_app.so and /usr/lib/rosemary/apps/my-app.so"
            ),
            "{error}"
        );
        let error = Installation::bare("my-app", Path::new("/mine.so")).unwrap_err().to_string();
        assert!(error.contains("looked for /mine.so; build it, or correct `object`"), "{error}");
    }

    #[test]
    fn object_that_is_no_file_is_refused() {
        assert!(read_object(Path::new("/dev/zero")).is_err());
        assert!(read_object(Path::new("/nowhere")).is_err());
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert!(read_object(&pipe).is_err());
    }

    #[test]
    fn too_large_object_is_refused_unread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long.so");
        // A file that consists of a hole, larger than the memory.
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_object(&path).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 268435456 bytes");
    }
}
