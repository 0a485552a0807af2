//! Reads `app.toml`, in which an app's developer describes the app and requests capabilities.
//!
//! The keys mean the same as in an `[[app]]` of the configuration; keys that only operators may set are
//! missing. Unlike there, a manifest without capabilities requests only packets.

use control::policy::{Capability, Stage};
use thiserror::Error;
use toml::de::DeTable;

use super::app::{AppConfig, Manifests};
use super::findings::{Finding, Findings};
use super::position::line_and_column;
use super::role::{Need, Role};
use super::value::Table;
use super::words::NAME_FORM;

/// The keys of `app.toml`.
pub const MANIFEST_KEYS: [&str; 11] = [
    "name",
    "version",
    "stage",
    "fail",
    "role",
    "needs",
    "ethertypes",
    "dpids",
    "capabilities",
    "services",
    "limits",
];

const VERSION_FORM: &str =
    "letters, digits, dots, hyphens and plus signs, a digit first, at most 40 long";

/// A developer's description of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its version.
    pub version: String,
    /// Its name and its requests.
    pub app: AppConfig,
    /// A notice about a value that a later version will understand differently, with its line and what replaces it.
    pub notice: Option<String>,
}

/// A mistake in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("app.toml:{line}:{column}: {what}")]
pub struct ManifestMistake {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// The value found and the value expected.
    pub what: String,
}

impl Manifest {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`ManifestMistake`] for the first mistake.
    pub fn parse(text: &str) -> Result<Self, ManifestMistake> {
        Self::understand(text).map_err(|it| mistake(text, it))
    }

    fn understand(text: &str) -> Result<Self, Finding> {
        let parsed = DeTable::parse(text).map_err(|error| Finding::syntax(&error))?;
        let findings = Findings::default();
        let table = Table::new("app.toml", &MANIFEST_KEYS, 0, parsed.get_ref(), &findings);
        for (key, form) in [("name", NAME_FORM), ("version", VERSION_FORM)] {
            if table.get(key).is_none() {
                findings.refuse(0, format!("{key} is missing; expected {form}"));
            }
        }
        let version = table.read("version", VERSION_FORM, |it| {
            it.text().filter(|it| is_version(it)).map(str::to_owned)
        });
        let has_capabilities = table.get("capabilities").is_some();
        let mut app = AppConfig::read(table, &Manifests::new());
        if let Some(app) = &mut app {
            app.at = 0;
            if !has_capabilities {
                app.capabilities = vec![Capability::PacketIn.into()];
            }
        }
        let (has_role, needs) = (table.get("role").is_some(), table.get("needs"));
        let unrequested = app.iter().flat_map(|app| {
            app.needs.iter().filter(|need| **need != Need::Config && !need.is_met_by(app))
        });
        if let (Some(needs), Some(need)) = (needs, unrequested.into_iter().next()) {
            needs.refuse_as(format!(
                "needs has {need}, which this manifest does not request; add it to `services` or `capabilities`"
            ));
        }
        let notices = findings.into_notices().map_err(|mistakes| {
            mistakes.into_iter().next().expect("there is a mistake if there are no notices")
        })?;
        let mut app = app.expect("an app without a mistake is read");
        // Whoever wrote that it belongs before all others meant that it guards.
        if !has_role && matches!(app.stage, Stage::Guard(_)) {
            app.role = Role::Guard;
        }
        let notice = notices.into_iter().next().map(|it| mistake(text, it).to_string());
        Ok(Self { version: version.expect("a version without a mistake is read"), app, notice })
    }
}

fn mistake(text: &str, Finding { at, what }: Finding) -> ManifestMistake {
    let (line, column) = line_and_column(text, at);
    ManifestMistake { line, column, what }
}

/// Returns whether a version is valid; it becomes part of a file's name and of log lines.
fn is_version(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|it| it.is_ascii_alphanumeric() || b".-+".contains(&it))
}

#[cfg(test)]
mod tests {
    use control::policy::{Fail, Grant, Stage};

    use super::*;
    use crate::{Config, Limit};

    const PACKET_IN: Grant =
        Grant { capability: Capability::PacketIn, dpids: Vec::new(), tables: Vec::new() };

    const HUB: &str = "name = \"hub\"\nversion = \"1.0.0\"\n";

    #[test]
    fn manifest_requests_only_what_it_names() {
        let manifest = Manifest::parse(HUB).unwrap();
        assert_eq!((manifest.app.name.as_str(), manifest.version.as_str()), ("hub", "1.0.0"));
        assert_eq!(manifest.app.capabilities, [PACKET_IN]);
        let text = format!(
            "{HUB}stage = \"guard\"\ncapabilities = [\"flow.write\"]\nlimits = {{ threads = 7 }}"
        );
        let app = Manifest::parse(&text).unwrap().app;
        assert_eq!(app.stage, Stage::Guard(Fail::Closed));
        assert_eq!(app.capabilities, [PACKET_IN, Capability::FlowWrite.into()]);
        assert_eq!(app.limits.of(Limit::Threads).hard, 7);
    }

    #[test]
    fn operator_keys_are_unknown_in_a_manifest() {
        for key in ["host = \"kernel\"", "band = [1, 2]", "object = \"/x\"", "enabled = true"] {
            let error = Manifest::parse(&format!("{HUB}{key}")).unwrap_err().to_string();
            assert!(error.starts_with("app.toml:3:1: unknown key"), "{error}");
        }
    }

    #[test]
    fn mistake_names_its_line() {
        for (text, line, part) in [
            ("", 1, "name is missing"),
            ("name = \"hub\"", 1, "version is missing"),
            ("name = \"Hub\"\nversion = \"1\"", 1, "lower-case"),
            ("name = \"hub\"\nversion = \"../1\"", 2, "a digit first"),
            ("name = \"hub\"\nversion = ", 2, "not TOML"),
        ] {
            let error = Manifest::parse(text).unwrap_err();
            assert!(error.line == line && error.what.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn configuration_overrides_manifest_per_key() {
        let text = format!(
            "{HUB}stage = \"guard\"\ncapabilities = [\"flow.write\"]\nethertypes = [0x806]"
        );
        let app = Manifest::parse(&text).unwrap().app;
        let manifests = Manifests::from([("hub".into(), app)]);
        let over = |keys: &str| {
            let text = format!("[[app]]\nname = \"other\"\n[[app]]\nname = \"hub\"\n{keys}");
            let config = Config::parse("/rosemary.toml".into(), text).unwrap();
            config.over(&manifests).unwrap().apps.unwrap().remove(1)
        };
        let app = over("");
        assert_eq!(app.stage, Stage::Guard(Fail::Closed));
        let flow_write = [PACKET_IN, Capability::FlowWrite.into()];
        assert_eq!(app.capabilities, flow_write);
        assert_eq!(app.filter.ethertypes, [0x806]);
        assert_eq!(over("stage = \"guard\"\nfail = \"open\"").stage, Stage::Guard(Fail::Open));
        assert_eq!(over("stage = \"observe\"").capabilities, flow_write);
        assert_eq!(over("capabilities = []").capabilities, [PACKET_IN]);
        assert_eq!(over("ethertypes = [0x800]").filter.ethertypes, [0x800]);
    }

    #[test]
    fn overlap_is_checked_with_manifests() {
        let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        let text = format!(
            "[[trust]]\nname = \"a\"\nkey = \"{key}\"\n[[app]]\nname = \"hub\"\n\
             [[app]]\nname = \"top\"\nband = [45056, 49151]"
        );
        let config = Config::parse("/rosemary.toml".into(), text).unwrap();
        let manifest = |keys: &str| Manifest::parse(&format!("{HUB}{keys}")).unwrap().app;
        let over = |keys| config.clone().over(&Manifests::from([("hub".into(), manifest(keys))]));
        assert!(over("stage = \"guard\"\ncapabilities = [\"flow.write\"]").is_ok());
        let error = over("capabilities = [\"flow.write\"]").unwrap_err().to_string();
        assert!(error.contains("overlaps [45056, 49151]"), "{error}");
    }
}
