//! Reads the configuration of `protection`.
//!
//! ```toml
//! action = "drain"            # "drain", "throttle", "suspend" or "report"
//! otherwise = "report"        # where a switch cannot be drained: "throttle", "suspend" or "report"
//! threshold = 12              # percent by which throughput falls or the answer time rises
//! suspect-rate = 50           # flow-mods per second for a switch, beyond those that packet-ins explain
//! per-packet = 4              # flow-mods for a switch that one packet-in of the app explains
//! pace = 20                   # flow-mods per second for each switch of a throttled app
//! quiet = 10                  # seconds without the attack until its remedy is undone
//! trusted = ["forwarding"]    # apps that are never suspected
//! ```

use rosemary_sdk::services::apps::Measure;
use serde::Deserialize;

/// The operator's text.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    action: Option<toml::Spanned<String>>,
    otherwise: Option<toml::Spanned<String>>,
    threshold: Option<toml::Spanned<u64>>,
    suspect_rate: Option<toml::Spanned<u64>>,
    per_packet: Option<toml::Spanned<u64>>,
    pace: Option<toml::Spanned<u64>>,
    quiet: Option<toml::Spanned<u64>>,
    trusted: Option<Vec<String>>,
}

/// The reaction to a suspect that harms a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Drains the switch, so that traffic takes other paths.
    Drain,
    /// Throttles or suspends the suspect.
    Limit(Measure),
    /// Reports an incident only.
    Report,
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) action: Remedy,
    /// Where a switch cannot be drained.
    pub(crate) otherwise: Remedy,
    /// Percent.
    pub(crate) threshold: u64,
    /// Flow-mods per second for a switch, beyond those that packet-ins explain.
    pub(crate) suspect_rate: u64,
    /// Flow-mods for a switch that one packet-in explains.
    pub(crate) per_packet: u64,
    /// Seconds.
    pub(crate) quiet: u64,
    /// The apps that are never suspected.
    pub(crate) trusted: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            action: Remedy::Drain,
            otherwise: Remedy::Report,
            threshold: 12,
            suspect_rate: 50,
            per_packet: 4,
            quiet: 10,
            // It carries out a drain, so a drain cannot be the remedy for its flow-mods.
            trusted: vec!["forwarding".into()],
        }
    }
}

impl Config {
    /// The first setting that limits apps, as the operator writes it; `None` if none does.
    pub(crate) fn limiting(&self) -> Option<String> {
        let keys = [("action", self.action), ("otherwise", self.otherwise)];
        keys.into_iter().find_map(|(key, remedy)| match remedy {
            Remedy::Limit(Measure::Throttle(_)) => Some(format!("{key} = \"throttle\"")),
            Remedy::Limit(Measure::Suspend) => Some(format!("{key} = \"suspend\"")),
            Remedy::Drain | Remedy::Report => None,
        })
    }

    /// Reads the operator's text.
    ///
    /// # Errors
    /// A phrase that begins with the line.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line(at), error.message().replace('\n', "; "))
        })?;
        let number = |key: Option<toml::Spanned<u64>>, name: &str, most: u64, default: u64| {
            let Some(value) = key else { return Ok(default) };
            if (1..=most).contains(value.get_ref()) {
                return Ok(*value.get_ref());
            }
            Err(format!("line {}: {name} is 1 to {most}", line(value.span().start)))
        };
        let default = Self::default();
        let pace = number(file.pace, "pace", 1_000_000, 20)?;
        let pace = u32::try_from(pace).unwrap_or(u32::MAX);
        let remedy = |key: Option<toml::Spanned<String>>, names: &str, default: Remedy| {
            let Some(value) = key else { return Ok(default) };
            let name = value.get_ref().as_str();
            let found = match name {
                "drain" => Some(Remedy::Drain),
                "throttle" => Some(Remedy::Limit(Measure::Throttle(pace))),
                "suspend" => Some(Remedy::Limit(Measure::Suspend)),
                "report" => Some(Remedy::Report),
                _ => None,
            };
            let found = found.filter(|_| names.contains(name));
            found.ok_or_else(|| format!("line {}: expected {names}", line(value.span().start)))
        };
        Ok(Self {
            action: remedy(
                file.action,
                "\"drain\", \"throttle\", \"suspend\" or \"report\"",
                default.action,
            )?,
            otherwise: remedy(
                file.otherwise,
                "\"throttle\", \"suspend\" or \"report\"",
                default.otherwise,
            )?,
            threshold: number(file.threshold, "threshold", 99, default.threshold)?,
            suspect_rate: number(
                file.suspect_rate,
                "suspect-rate",
                1_000_000,
                default.suspect_rate,
            )?,
            per_packet: number(file.per_packet, "per-packet", 1_000, default.per_packet)?,
            quiet: number(file.quiet, "quiet", 3_600, default.quiet)?,
            trusted: file.trusted.unwrap_or(default.trusted),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_read() {
        assert_eq!(Config::read(""), Ok(Config::default()));
        let read =
            Config::read("action = \"throttle\"\npace = 7\nthreshold = 20\ntrusted = []").unwrap();
        assert_eq!(read.action, Remedy::Limit(Measure::Throttle(7)));
        assert_eq!((read.threshold, read.trusted.len()), (20, 0));
        assert_eq!(read.limiting().as_deref(), Some("action = \"throttle\""));
        assert_eq!(Config::default().limiting(), None);
        let otherwise = Config::read("otherwise = \"suspend\"").unwrap();
        assert_eq!(otherwise.limiting().as_deref(), Some("otherwise = \"suspend\""));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, expected) in [
            ("threshold = 0", "line 1: threshold is 1 to 99"),
            ("quiet = 1\naction = \"kill\"", "line 2: expected \"drain\""),
            ("otherwise = \"drain\"", "line 1: expected \"throttle\""),
            ("\nsuspects = 3", "line 2: unknown field"),
        ] {
            let error = Config::read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
