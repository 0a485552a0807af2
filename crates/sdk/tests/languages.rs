//! Compares what the SDKs in Rust, C and Python offer: kinds of events, messages of a change set, and its outcomes.
#![allow(clippy::unwrap_used, reason = "the sources are those of this repository")]

use std::collections::BTreeSet;
use std::path::Path;

/// Events that the SDK in Python has no class for, since an app in Python provides no service.
const NOT_IN_PYTHON: [&str; 1] = ["Client"];

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text between the first `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{begin:?} is missing"));
    rest.split_once(end).unwrap_or_else(|| panic!("{end:?} is missing")).0
}

/// Returns the names of the variants of an enum in Rust.
fn variants(text: &str, declaration: &str) -> BTreeSet<String> {
    let body = between(text, declaration, "\n}");
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    let end = |it: char| !it.is_alphanumeric();
    names.map(|line| line.split(end).next().unwrap_or_default().to_owned()).collect()
}

/// Returns the names behind a prefix of constants in C, in lower case.
fn constants(text: &str, prefix: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_prefix(prefix)?.split_once(" ="));
    names.map(|(name, _)| name.to_lowercase()).collect()
}

/// Returns a name in camel case as words with underscores.
fn with_underscores(name: &str) -> String {
    let mut words = String::new();
    for (number, letter) in name.char_indices() {
        if letter.is_uppercase() && number > 0 {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn change_sets_have_the_same_messages() {
    let rust = variants(&source("crates/sdk/src/changes.rs"), "pub enum Change<'a> {\n");
    assert_eq!(rust, set(["Flow", "Group", "Meter"]));

    let stub = source("python/rosemary/_native.pyi");
    let python = between(&stub, "def commit(self, to: Switch, changes: Sequence[", "]");
    let python = python.split(" | ").map(|name| name.trim_end_matches("Mod").to_owned());
    assert_eq!(python.collect::<BTreeSet<_>>(), rust, "network.commit");

    let header = source("crates/sdk/c/rosemary_changes.h");
    let adds = between(&header, "/* Adds a whole ", " in the switch's version");
    let adds = adds.replace(" or ", ", ");
    let c = adds.split(", ").map(|name| with_underscores(name.trim_end_matches("-mod")));
    let expected = rust.iter().map(|name| with_underscores(name));
    assert_eq!(c.collect::<BTreeSet<_>>(), expected.collect(), "rosemary_changes_add");
    assert!(header.contains("int32_t rosemary_changes_add("));
}

#[test]
fn change_sets_have_the_same_outcomes() {
    let c = constants(&source("crates/sdk/c/rosemary_app.h"), "ROSEMARY_SET_");
    let rust = source("crates/sdk/src/changes.rs");
    let rust = rust.lines().filter_map(|line| line.trim().strip_prefix("pub(super) const "));
    let rust = rust.filter_map(|line| Some(line.split_once(": u8 =")?.0.to_lowercase()));
    assert_eq!(rust.collect::<BTreeSet<_>>(), c);

    let stub = source("python/rosemary/_native.pyi");
    let python = between(&stub, "_Outcome: TypeAlias = Literal[", "]");
    let python = python.split(", ").map(|word| word.trim_matches('"').to_owned());
    assert_eq!(python.collect::<BTreeSet<_>>(), c);
}

#[test]
fn each_event_has_a_class_in_python() {
    let events = variants(&source("crates/sdk/src/event.rs"), "pub enum Event<'a> {\n");
    let made = source("python/src/events/of_record.rs");
    let made = made.split("Event::").skip(1);
    let end = |it: char| !it.is_alphanumeric();
    let made: BTreeSet<_> =
        made.map(|text| text.split(end).next().unwrap_or_default().to_owned()).collect();
    let missing: BTreeSet<_> = events.difference(&made).cloned().collect();
    assert_eq!(missing, set(NOT_IN_PYTHON));
}

#[test]
fn each_record_has_a_kind_in_c() {
    let kinds = variants(&source("crates/sdk/src/abi/mod.rs"), "pub enum RecordKind {\n");
    let header = source("crates/sdk/c/rosemary_app.h");
    for kind in kinds {
        let constant = format!("    ROSEMARY_{} = ", with_underscores(&kind).to_uppercase());
        assert!(header.contains(&constant), "{constant}");
    }
}
