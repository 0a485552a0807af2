//! Values that several tables have: names of apps, paths, datapath ids, and the names of stages.

use std::path::PathBuf;

use control::policy::Stage;
use openflow::Dpid;

use super::value::Value;

/// Maximum length of an app's name, in letters.
const LONGEST_NAME: usize = 40;

/// Describes a valid app name, for error messages.
pub const NAME_FORM: &str =
    "a name of lower-case letters, digits and hyphens that begins with a letter, at most 40 long";

/// Returns whether this is a valid name of an app; it becomes part of paths, library names and log lines.
pub fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
}

/// Reads a path that is not empty, without characters that a terminal does not show: messages and logs contain it.
pub(super) fn path(value: &Value<'_>) -> Option<PathBuf> {
    let is_shown = |path: &&str| !path.is_empty() && !path.contains(sys::text::is_hidden);
    value.text().filter(is_shown).map(PathBuf::from)
}

/// Describes datapath ids, for error messages.
pub(super) const DPIDS: &str = "datapath ids such as \"00:00:00:00:00:00:00:01\", \"0x1\" or 1";

pub(super) fn dpid(value: &Value<'_>) -> Option<u64> {
    match value.text() {
        Some(text) => text.parse::<Dpid>().ok().map(|dpid| dpid.0),
        None => value.number(),
    }
}

/// Lists words in a sentence, as in `a, b or c`.
pub fn alternatives(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Returns the name of a stage in the configuration.
pub fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Guard(_) => "guard",
        Stage::Control => "control",
        Stage::Observe => "observe",
    }
}

#[cfg(test)]
mod tests {
    use super::alternatives;
    use crate::Config;

    #[test]
    fn words_are_listed() {
        let listed = [&[][..], &["a"], &["a", "b"], &["a", "b", "c"]].map(alternatives);
        assert_eq!(listed, ["", "a", "a or b", "a, b or c"]);
    }

    #[test]
    fn paths_are_shown_as_they_are() {
        for (path, is_good) in [
            ("object", true),
            ("my objects/a b.so", true),
            ("a\\n2026", false),
            ("\\u2800", false),
            ("\\u202e", false),
        ] {
            let text = format!("[controller]\ntls-dir = \"{path}\"\n");
            let parsed = Config::parse("/etc/r.toml".into(), text);
            assert_eq!(parsed.is_ok(), is_good, "{path}");
            let said = parsed.map_err(|error| error.to_string()).err().unwrap_or_default();
            assert!(!said.contains(sys::text::is_hidden), "{said:?}");
        }
    }
}
