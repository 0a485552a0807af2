//! Takes the page that `make ui` built, in `target/ui/dist`, into the program.
//!
//! Without it the program is built all the same, and says what is missing where the page would be.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The most bytes of all files together.
const MOST: u64 = 8 << 20;

fn main() {
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it")).join("../..");
    let dist = root.join("target/ui/dist");
    // A directory that is missing counts as changed each time, so its parents are watched instead.
    let watched = [dist.clone(), root.join("target/ui"), root.join("target")];
    if let Some(dir) = watched.iter().find(|dir| dir.exists()) {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    // The files are copied, so that `page.rs` names no directory of this machine: debugging information has its checksum, and
    // packages must be the same wherever they are built.
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets it"));
    let mut text = String::from("&[\n");
    let mut size = 0;
    for (name, path) in files(&dist) {
        println!("cargo::rerun-if-changed={}", path.display());
        size += fs::metadata(&path).map_or(0, |it| it.len());
        assert!(
            size <= MOST,
            "the page in {} has more than {MOST} bytes; type: make ui",
            dist.display()
        );
        let copy = out.join(&name);
        fs::create_dir_all(copy.parent().expect("it is in `out`"))
            .expect("Cargo's directory is writable");
        fs::copy(&path, &copy)
            .unwrap_or_else(|error| panic!("cannot copy {}: {error}", path.display()));
        writeln!(
            text,
            "    (\"{name}\", include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\"))),"
        )
        .expect("a String takes all");
    }
    text.push_str("]\n");
    let out = out.join("page.rs");
    fs::write(&out, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", out.display()));
}

/// The page's files: `index.html` and those in `assets`, whose names Vite made of letters, digits and `-_.`.
fn files(dist: &Path) -> Vec<(String, PathBuf)> {
    let index = dist.join("index.html");
    if !index.is_file() {
        return Vec::new();
    }
    let assets = fs::read_dir(dist.join("assets")).into_iter().flatten().flatten();
    let mut found: Vec<_> = assets
        .filter_map(|entry| {
            Some((format!("assets/{}", entry.file_name().into_string().ok()?), entry.path()))
        })
        .filter(|(name, _)| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        })
        .collect();
    found.push(("index.html".into(), index));
    found.sort();
    found
}
