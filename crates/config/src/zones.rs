//! Reads the settings of all zones: the table `[zones]`.

use std::time::Duration;

use super::app;
use super::value::Table;

/// The keys of `[zones]`.
pub const ZONES_KEYS: [&str; 2] = ["require", "hang-seconds"];

/// How complete the sandbox of each app must be: `zones.require`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// As complete as the system allows; gaps are reported.
    #[default]
    Best,
    /// Complete, or nothing starts.
    Full,
}

impl Require {
    /// The requirement with this name in the configuration.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "best" => Some(Self::Best),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// Reads `[zones]` of the file `top`: the requirement, and the processor time that a call of an app may use.
pub(super) fn read(top: &Table<'_>) -> (Require, Option<Duration>) {
    let zones = top.get("zones").and_then(|it| it.table("[zones]", &ZONES_KEYS));
    let Some(zones) = zones else { return (Require::default(), None) };
    let require = zones.read("require", "\"best\" or \"full\"", |it| Require::named(it.text()?));
    (require.unwrap_or_default(), app::hang(zones))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn require_is_best_or_full() {
        let require = |value: &str| {
            let text = format!("[zones]\nrequire = {value}\n");
            let config = Config::parse("/r.toml".into(), text);
            config.map(|it| it.require).map_err(|it| it.to_string())
        };
        assert_eq!(require("\"full\""), Ok(Require::Full));
        assert_eq!(require("\"best\""), Ok(Require::Best));
        assert_eq!(Config::default().require, Require::Best);
        let error = require("\"all\"").unwrap_err();
        assert!(error.contains("/r.toml:2:") && error.contains("\"best\" or \"full\""), "{error}");
    }

    #[test]
    fn requirement_names_parse() {
        assert_eq!(Require::named("full"), Some(Require::Full));
        assert_eq!(Require::named("best"), Some(Require::Best));
        assert_eq!(Require::named("Full"), None);
    }
}
