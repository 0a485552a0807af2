//! Defines the hostings of apps as a table: a row of properties for each.
//!
//! Programs read the properties and compare no names, so a further hosting is a row here and a folder in the programs that carry it
//! out (`monitor/src/hosting`; `kernel/src/app_port/guest` if the kernel's process hosts the apps). `CONTRIBUTING.md` has the recipe.

use std::fmt;
use std::ops::Deref;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::capability::Capability;

/// What hosts an app. It is written as its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hosting(&'static Properties);

/// The properties of a hosting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// The value of `host` in the configuration. No two hostings share one.
    pub name: &'static str,
    /// Whether the configuration cannot name it: the object's file makes it of another one with the same process.
    pub is_implied: bool,
    /// The process in which apps run.
    pub process: HostProcess,
    /// The hosting of an app that leaves the kernel's process.
    pub outside: Option<Hosting>,
    /// The language of the apps, for messages.
    pub language: &'static str,
    /// The extension of the files that it runs; `None` if it runs shared objects.
    pub extension: Option<&'static str>,
    /// Whether an object may be the name of a module, and that of a package an archive of modules.
    pub has_modules: bool,
    /// The keys of an `[[app]]` that have a meaning for this hosting and not for every one.
    pub keys: &'static [&'static str],
    /// Whether the process maps code that was compiled from the object, directly from sealed memory, and then makes no memory
    /// executable.
    pub maps_sealed: bool,
    /// Whether apps may have environment variables of nearly all names, because their libraries have many of their own.
    pub has_any_env: bool,
    /// Whether options that begin with `env.` set environment variables.
    pub options_set_env: bool,
    /// The capabilities of an app for which the configuration lists none.
    pub capabilities: &'static [Capability],
    /// The capabilities of an observer for which the configuration lists none.
    pub capabilities_of_observers: &'static [Capability],
}

/// The process in which a hosting runs apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostProcess {
    /// A zone for each app.
    Zone,
    /// The kernel's process, which all these apps share: trusted execution. The kernel receives them at its start only.
    Kernel,
}

impl HostProcess {
    /// The name of the process in reports for operators.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zone => "user",
            Self::Kernel => "kernel",
        }
    }
}

/// A shared object in a zone.
const USER: Properties = Properties {
    name: "user",
    is_implied: false,
    process: HostProcess::Zone,
    outside: None,
    language: "Rust or C",
    extension: None,
    has_modules: false,
    keys: &[],
    maps_sealed: false,
    has_any_env: false,
    options_set_env: false,
    capabilities: &[Capability::PacketIn, Capability::PacketOut, Capability::FlowWrite],
    capabilities_of_observers: &[Capability::PacketIn],
};

/// A module in an interpreter's zone.
const PYTHON: Properties = Properties {
    name: "python",
    language: "Python",
    extension: Some("py"),
    has_modules: true,
    keys: &["python-path", "options", "listen"],
    has_any_env: true,
    ..USER
};

impl Hosting {
    /// A shared object in a zone.
    pub const USER: Self = Self(&USER);

    /// A shared object in the kernel's process.
    pub const KERNEL: Self = Self(&Properties {
        name: "kernel",
        process: HostProcess::Kernel,
        outside: Some(Self::USER),
        ..USER
    });

    /// An app for Rosemary's SDK in Python, in a zone.
    pub const PYTHON: Self = Self(&PYTHON);

    /// An app of Ryu or os-ken in a zone.
    pub const RYU: Self = Self(&Properties {
        name: "ryu",
        options_set_env: true,
        // Ryu's apps expect a switch of their own.
        capabilities: &[
            Capability::PacketIn,
            Capability::PacketOut,
            Capability::PacketOutReserved,
            Capability::FlowWrite,
            Capability::GroupWrite,
            Capability::MeterWrite,
            Capability::StatsRead,
            Capability::SwitchConfig,
        ],
        // The framework requests the ports of a switch before the app receives the switch.
        capabilities_of_observers: &[Capability::PacketIn, Capability::StatsRead],
        ..PYTHON
    });

    /// A module of WebAssembly in a zone.
    pub const WASM: Self = Self(&Properties {
        name: "wasm",
        language: "WebAssembly",
        extension: Some("wasm"),
        keys: &["options"],
        maps_sealed: true,
        ..USER
    });

    /// A module of WebAssembly in the kernel's process.
    pub const WASM_IN_KERNEL: Self = Self(&Properties {
        name: "kernel-wasm",
        is_implied: true,
        process: HostProcess::Kernel,
        outside: Some(Self::WASM),
        // Without `host`, a module gets a zone.
        extension: None,
        ..*Self::WASM.properties()
    });

    /// All hostings. Of those with one extension, the first is that of a file for which the configuration names none.
    pub const ALL: [Self; 6] =
        [Self::USER, Self::KERNEL, Self::PYTHON, Self::RYU, Self::WASM, Self::WASM_IN_KERNEL];

    /// A hosting with these properties that is not in [`ALL`](Self::ALL), for tests.
    pub const fn of(properties: &'static Properties) -> Self {
        Self(properties)
    }

    /// Its row of the table, as the beginning of another row.
    pub const fn properties(self) -> &'static Properties {
        self.0
    }

    /// The hostings that the configuration can name.
    pub fn configurable() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|it| !it.is_implied)
    }

    /// The hosting with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name == name)
    }

    /// The hosting of a file, by the file's extension. `None` for files without an extension of a hosting.
    pub fn of_file(file: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.has_file(file))
    }

    /// The hosting of `file` where the configuration names this one: `kernel` is another hosting for a module than for a shared object.
    #[must_use]
    pub fn for_file(self, file: &Path) -> Self {
        let own = Self::of_file(file).filter(|_| self.is_in_kernel());
        own.and_then(Self::inside).unwrap_or(self)
    }

    /// The hosting in the kernel's process for apps of this hosting, which runs them outside.
    pub fn inside(self) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.is_in_kernel() && it.outside == Some(self))
    }

    /// The hosting of a package with an archive of modules.
    pub fn of_archive() -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.has_modules)
    }

    /// The hosting outside of the kernel's process: the hosting itself, unless that is in the kernel.
    #[must_use]
    pub fn outside(self) -> Self {
        self.outside.unwrap_or(self)
    }
}

impl Properties {
    /// Whether apps run in the kernel's process, so that a change of one restarts the kernel.
    pub fn is_in_kernel(&self) -> bool {
        self.process == HostProcess::Kernel
    }

    /// Whether a file has the extension of this hosting.
    pub fn has_file(&self, file: &Path) -> bool {
        self.extension.is_some_and(|own| file.extension().is_some_and(|it| it == own))
    }
}

impl Default for Hosting {
    fn default() -> Self {
        Self::USER
    }
}

impl Deref for Hosting {
    type Target = Properties;

    fn deref(&self) -> &Properties {
        self.0
    }
}

impl fmt::Debug for Hosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosting({})", self.name)
    }
}

impl Serialize for Hosting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Hosting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name)
            .ok_or_else(|| serde::de::Error::custom(format_args!("{name:?} is no hosting")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostings_are_written_as_their_names() {
        for (at, host) in Hosting::ALL.into_iter().enumerate() {
            let text = serde_json::to_string(&host).unwrap();
            assert_eq!(text, format!("{:?}", host.name));
            assert_eq!(serde_json::from_str::<Hosting>(&text).unwrap(), host);
            assert!(
                Hosting::ALL[..at].iter().all(|other| other.name != host.name && *other != host)
            );
        }
        let error = serde_json::from_str::<Hosting>("\"moon\"").unwrap_err().to_string();
        assert!(error.contains("\"moon\" is no hosting"), "{error}");
    }

    #[test]
    fn app_that_leaves_the_kernel_is_in_no_kernel() {
        for host in Hosting::ALL {
            assert!(!host.outside().is_in_kernel(), "{host:?}");
            assert_eq!(host.outside() != host, host.is_in_kernel(), "{host:?}");
        }
    }

    #[test]
    fn kernel_hosts_each_language_in_its_own_way() {
        let hosting = |host: Hosting, file: &str| host.for_file(Path::new(file));
        assert_eq!(hosting(Hosting::KERNEL, "/a/b.wasm"), Hosting::WASM_IN_KERNEL);
        assert_eq!(hosting(Hosting::KERNEL, "/a/b.so"), Hosting::KERNEL);
        assert_eq!(hosting(Hosting::KERNEL, "/a/b.py"), Hosting::KERNEL, "refused as no object");
        assert_eq!(hosting(Hosting::PYTHON, "/a/b.wasm"), Hosting::PYTHON);
    }

    #[test]
    fn extension_selects_the_first_hosting_of_its_language() {
        assert_eq!(Hosting::of_file(Path::new("/a/b.py")), Some(Hosting::PYTHON));
        for other in ["a.so", "py", "ryu.app.switch", "a.py.so", ""] {
            assert_eq!(Hosting::of_file(Path::new(other)), None, "{other}");
        }
    }
}
