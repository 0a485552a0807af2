//! Checks that the kernel's top-level modules use each other without a cycle. It reads the sources, without tests.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// All Rust files below a folder, except those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (mut folders, mut files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.retain(|path| {
        path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs")
    });
    folders.retain(|path| !path.ends_with("tests"));
    files.extend(folders.iter().flat_map(|folder| sources(folder)));
    files
}

/// The modules that a source names as `crate::module`, outside comments and its own tests.
fn used(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    let after = |line: &str| -> Vec<String> {
        let parts = line.split("crate::").skip(1);
        let name =
            |part: &str| part.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        parts.map(name).collect()
    };
    lines.flat_map(after).filter(|name| !name.is_empty()).collect()
}

fn graph(root: &Path) -> Graph {
    let mut graph = Graph::new();
    for path in sources(root) {
        let inside = path.strip_prefix(root).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if ["lib", "main"].contains(&module) {
            continue;
        }
        let mut used = used(&fs::read_to_string(&path).unwrap());
        used.remove(module);
        graph.entry(module.to_owned()).or_default().extend(used);
    }
    graph
}

/// The modules on a way from `from` to `to`, which stand in a cycle if the two are the same.
fn path(graph: &Graph, from: &str, to: &str, seen: &mut BTreeSet<String>) -> Option<Vec<String>> {
    for next in graph.get(from)? {
        if next == to {
            return Some(vec![from.to_owned(), to.to_owned()]);
        }
        if seen.insert(next.clone())
            && let Some(mut rest) = path(graph, next, to, seen)
        {
            rest.insert(0, from.to_owned());
            return Some(rest);
        }
    }
    None
}

fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    graph.keys().filter_map(|it| path(graph, it, it, &mut BTreeSet::new())).collect()
}

#[test]
fn kernel_modules_have_no_cycle() {
    let graph = graph(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(graph["worker"].contains("dispatch"), "the sources are read: {graph:?}");
    assert_eq!(cycles(&graph), Vec::<Vec<String>>::new());
}

#[test]
fn cycle_is_found() {
    let one = |name: &str, used: &[&str]| {
        (name.to_owned(), used.iter().map(|it| (*it).to_owned()).collect())
    };
    let graph =
        Graph::from([one("a", &["b"]), one("b", &["c"]), one("c", &["b"]), one("d", &["a"])]);
    assert_eq!(cycles(&graph), [["b", "c", "b"], ["c", "b", "c"]]);
    assert_eq!(used("use crate::a::B; // crate::no\nlet c = crate::c_d::E;\n").len(), 2);
}
