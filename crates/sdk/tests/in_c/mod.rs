//! Compiles C for tests, with the headers of the SDK. Each warning is an error.

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(feature = "host")]
pub(crate) use on_bench::{bench, load};

/// The options for a program that checks itself for overflow.
pub(crate) const PROGRAM: [&str; 2] = ["-O1", "-ftrapv"];

/// The options for a shared object.
pub(crate) const SHARED: [&str; 2] = ["-shared", "-fPIC"];

/// The path of a file that the test makes.
pub(crate) fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Compiles a source file.
///
/// # Panics
/// There is no C compiler, or the source is wrong.
pub(crate) fn compile(source: &Path, to: &Path, options: &[&str]) {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let cc = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-I"])
        .arg(headers)
        .arg("-o")
        .args([to, source])
        .args(options) // libraries follow the sources that need them
        .output()
        .expect("a C compiler is installed");
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
}

/// Compiles the text of an app into a shared object.
///
/// # Panics
/// See [`compile`].
pub(crate) fn object(name: &str, text: &str) -> PathBuf {
    let (source, object) = (made(&format!("{name}.c")), made(&format!("lib{name}.so")));
    std::fs::write(&source, text).expect("the folder is there");
    compile(&source, &object, &SHARED);
    object
}

#[cfg(feature = "host")]
mod on_bench {
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rosemary_sdk::abi::host::HostedApp;
    use rosemary_sdk::testing::{Bench, Recorder};
    use sys::object::Object;

    /// Loads a shared object.
    ///
    /// # Panics
    /// It is none.
    pub(crate) fn load(object: &Path) -> Object {
        let object = std::fs::File::open(object).expect("it was just made");
        Object::load(OwnedFd::from(object)).expect("it can be loaded")
    }

    /// Puts an app in a shared object on a bench.
    ///
    /// # Panics
    /// The object has no app.
    pub(crate) fn bench(object: &Path) -> Bench {
        let app = HostedApp::create(&load(object), Recorder::default());
        Bench::of(app.expect("the app begins"))
    }
}
