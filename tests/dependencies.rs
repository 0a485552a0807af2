//! Compares the dependencies between crates in `ARCHITECTURE.md` with the manifests, checks that they lead to lower floors, counts the
//! files that name a version of OpenFlow, and finds the files that name a hosting of apps.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a file that cannot be read fails the test")]

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The only dependency from outside that the page lists: the TLS library.
const TLS: &str = "rustls";

/// The crates that speak each version's protocol; all others ask a version for its features.
const SPEAKERS: [&str; 2] = ["openflow", "dal"];

/// The most files of other crates that may name a version.
const MOST_NAMING: usize = 5;

/// The files and folders that may name a hosting of apps: the table, the modules of hostings, programs that run apps, commands for
/// Ryu, and the simulator, which invents apps. All others ask a hosting for its properties.
const OF_HOSTINGS: [&str; 9] = [
    "control/src/hosting.rs",
    "monitor/src/hosting",
    "kernel/src/app_port/guest",
    "zone/src/run.rs",
    "wasm/src/run.rs",
    "wasm/src/kernel.rs",
    "cli/src/ryu",
    "cli/src/faucet.rs",
    "simulator/src",
];

/// The dependencies between crates of the same floor, with the reason. All others lead to a lower floor.
const SAME_FLOOR: [(&str, &str, &str); 10] = [
    (
        "cli",
        "monitor",
        "`rosemary up` becomes the monitor, and packages are checked as at the start",
    ),
    (
        "config",
        "control",
        "the file sets policies, capabilities and tuning, which are messages to the kernel",
    ),
    ("dal", "ovsdb", "a driver speaks to devices that are configured by their databases"),
    ("keys", "control", "purposes of keys and roles of users are in the messages about them"),
    ("northbound", "metrics", "one of its routes is the text for Prometheus"),
    ("northbound", "view", "its answers are those of the command"),
    ("sdk", "series", "it writes the short form that the kernel reads, and apps name its types"),
    ("wasm", "kernel", "its kernel has the workers of every kernel"),
    (
        "services",
        "view",
        "the history reads the figures that the command shows, by the same clients",
    ),
    ("wasm", "zone", "its zone has the event loop of every zone"),
];

type Uses = BTreeMap<String, BTreeSet<String>>;

/// Each crate below `crates/`, with those of its dependencies that the page lists.
fn manifests(root: &Path) -> Uses {
    let names: BTreeSet<String> = fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let uses = |name: &String| {
        let manifest =
            fs::read_to_string(root.join("crates").join(name).join("Cargo.toml")).unwrap();
        manifest
            .lines()
            .skip_while(|line| *line != "[dependencies]")
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .map(|key| key.trim_start_matches("rosemary-").to_owned())
            .filter(|key| key == TLS || names.contains(key))
            .collect()
    };
    names.iter().map(|name| (name.clone(), uses(name))).collect()
}

/// The rows of the page's table `| crate | uses |`.
fn page(root: &Path) -> Uses {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let names = |cell: &str| {
        let names = cell.split('`').skip(1).step_by(2);
        names.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    page.lines()
        .skip_while(|line| *line != "| crate | uses |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (names(cells[1]).remove(0), names(cells[2]).into_iter().collect())
        })
        .collect()
}

/// The floor of each crate below `crates/`: the number of the heading under which the code map describes it.
fn floors(root: &Path) -> BTreeMap<String, u32> {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut floors = BTreeMap::new();
    let mut floor = None;
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            let number = heading.strip_prefix("Floor ").and_then(|it| it.split(':').next());
            floor = number.map(|it| it.parse().unwrap());
        } else if let (Some(floor), Some(text)) = (floor, line.strip_prefix("**`")) {
            let name = text.split('`').next().unwrap();
            if root.join("crates").join(name).exists() {
                floors.insert(name.to_owned(), floor);
            }
        }
    }
    floors
}

#[test]
fn dependencies_lead_to_lower_floors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (floors, manifests) = (floors(&root), manifests(&root));
    assert!(floors.keys().eq(manifests.keys()), "the code map describes every crate: {floors:?}");
    let edges = manifests.iter().flat_map(|(name, uses)| uses.iter().map(move |used| (name, used)));
    let (mut same, mut upward) = (Vec::new(), Vec::new());
    for (name, used) in edges.filter(|(_, used)| *used != TLS) {
        match floors[name].cmp(&floors[used]) {
            Ordering::Greater => {}
            Ordering::Equal => same.push((name.as_str(), used.as_str())),
            Ordering::Less => upward.push((name, used)),
        }
    }
    assert!(upward.is_empty(), "these use a crate of a higher floor: {upward:?}");
    assert_eq!(same, SAME_FLOOR.map(|(name, used, _)| (name, used)), "left: the manifests");
}

#[test]
fn architecture_page_lists_every_dependency() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (page, manifests) = (page(&root), manifests(&root));
    assert_eq!(page, manifests, "left: ARCHITECTURE.md, right: the manifests");
    assert!(!manifests["monitor"].contains(TLS) && !manifests["monitor"].contains("keys"));
    for program in ["kernel", "zone", "services", "security"] {
        assert!(!manifests["monitor"].contains(program) && !manifests["cli"].contains(program));
    }
}

/// Adds the source files below a folder, except those of tests and benchmarks.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if matches!(name, "tests" | "app_tests" | "benches") {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

/// The lines of a file outside of comments and its tests.
fn code(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(ToOwned::to_owned).collect()
}

#[test]
fn supervisor_does_no_io() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&root.join("crates/supervisor/src"), &mut files);
    assert!(files.len() > 40, "the search sees the sources: {}", files.len());
    // Addresses are no I/O, but sockets are.
    let io = [
        "std::fs",
        "Tcp",
        "Udp",
        "Unix",
        "Packets",
        "Channel",
        "std::process",
        "std::thread",
        "std::env",
        "::now()",
        "rustix",
    ];
    for file in files {
        let code = code(&file);
        let found = io.iter().find(|word| code.iter().any(|line| line.contains(**word)));
        assert_eq!(found, None, "{}", file.display());
    }
}

/// Whether a file names a version, such as `Version::V1_3`, outside of comments and its tests.
fn names_version(file: &Path) -> bool {
    let is_in_word = |before: &str| before.ends_with(|it: char| it.is_alphanumeric() || it == '_');
    let names = |line: &String| line.match_indices("V1_").any(|(at, _)| !is_in_word(&line[..at]));
    code(file).iter().any(names)
}

#[test]
fn few_files_name_a_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let krate = entry.unwrap().path();
        if !SPEAKERS.iter().any(|it| krate.ends_with(it)) {
            sources(&krate, &mut files);
        }
    }
    assert!(files.len() > 500, "the search sees the sources: {}", files.len());
    files.retain(|file| names_version(file));
    files.sort();
    assert!(
        files.len() <= MOST_NAMING,
        "{} files name a version of OpenFlow, more than {MOST_NAMING}; ask `Version::features` or `Version::layout`: {files:#?}",
        files.len()
    );
}

#[test]
fn hostings_are_named_in_their_modules_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut files = Vec::new();
    sources(&crates, &mut files);
    let names = |file: &PathBuf| {
        let code = code(file);
        let of_table = [
            "Hosting::USER",
            "Hosting::KERNEL",
            "Hosting::PYTHON",
            "Hosting::RYU",
            "Hosting::WASM",
        ];
        of_table.iter().any(|name| code.iter().any(|line| line.contains(name)))
    };
    files.retain(names);
    let is_expected =
        |file: &PathBuf| OF_HOSTINGS.iter().any(|it| file.starts_with(crates.join(it)));
    let (expected, others): (Vec<_>, Vec<_>) = files.into_iter().partition(is_expected);
    assert!(expected.len() >= OF_HOSTINGS.len(), "the search sees the sources: {expected:#?}");
    assert_eq!(others, [""; 0].map(PathBuf::from), "ask `Hosting` for its properties");
}
