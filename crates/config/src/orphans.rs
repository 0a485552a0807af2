//! Reads what becomes of the flows, groups and meters of apps that are not in the configuration any more.

use super::value::Table;

/// What becomes of flows, groups and meters of apps that have run before and are not in the configuration any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Orphans {
    /// They are removed when a switch connects: a firewall that was taken out of the configuration drops nothing more.
    #[default]
    Remove,
    /// They stay until the operator removes them.
    Keep,
}

impl Orphans {
    /// Reads the key `orphans`.
    pub(super) fn read(controller: &Table<'_>) -> Self {
        let orphans =
            controller.read("orphans", "\"remove\" or \"keep\"", |it| match it.text()? {
                "remove" => Some(Self::Remove),
                "keep" => Some(Self::Keep),
                _ => None,
            });
        orphans.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn orphans_are_removed_by_default() {
        let orphans = |text: &str| {
            let config = Config::parse("/rosemary.toml".into(), text.into());
            config.map(|it| it.orphans).map_err(|error| error.to_string())
        };
        assert_eq!(orphans(""), Ok(Orphans::Remove));
        assert_eq!(orphans("[controller]\norphans = \"keep\""), Ok(Orphans::Keep));
        let error = orphans("[controller]\norphans = \"delete\"").unwrap_err();
        assert!(error.contains("\"remove\" or \"keep\""), "{error}");
    }
}
