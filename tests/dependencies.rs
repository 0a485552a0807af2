//! Compares the dependencies between crates in `ARCHITECTURE.md` with the manifests.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a manifest that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The only dependency from outside that the page lists: the TLS library.
const TLS: &str = "rustls";

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
