//! Reads the configuration of the app.
//!
//! ```toml
//! max-age = 600              # seconds of silence after which a host is asked whether it is there, and then forgotten
//! hosts-per-port = 4096      # further hosts behind a port are not learned
//! routers = ["02:00:00:00:00:01"]   # their packets carry the addresses of others
//! ```

use std::collections::HashSet;

use rosemary_sdk::MacAddr;
use serde::Deserialize;
use toml::Spanned;

/// The operator's choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// Seconds of silence after which a host is probed.
    pub(super) max_age_s: u64,
    /// Most hosts behind a port.
    pub(super) hosts_per_port: usize,
    /// Hosts whose packets carry addresses of others.
    pub(super) routers: HashSet<MacAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_age_s: 600, hosts_per_port: 4096, routers: HashSet::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    max_age: Option<Spanned<u64>>,
    hosts_per_port: Option<Spanned<usize>>,
    #[serde(default)]
    routers: Vec<Spanned<String>>,
}

impl Settings {
    /// Reads the operator's text.
    ///
    /// # Errors
    /// A phrase that begins with the line.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line(at), error.message().replace('\n', "; "))
        })?;
        let mut settings = Self::default();
        if let Some(max_age) = file.max_age {
            if !(10..=86_400).contains(max_age.get_ref()) {
                let at = line(max_age.span().start);
                return Err(format!("line {at}: max-age is 10 to 86400 seconds"));
            }
            settings.max_age_s = max_age.into_inner();
        }
        if let Some(most) = file.hosts_per_port {
            if !(1..=1_000_000).contains(most.get_ref()) {
                let at = line(most.span().start);
                return Err(format!("line {at}: hosts-per-port is 1 to 1000000"));
            }
            settings.hosts_per_port = most.into_inner();
        }
        for router in file.routers {
            let at = line(router.span().start);
            let mac = router.get_ref().parse().map_err(|error| format!("line {at}: {error}"))?;
            settings.routers.insert(mac);
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        assert_eq!(Settings::read(""), Ok(Settings::default()));
        let text = "max-age = 60\nhosts-per-port = 9\nrouters = [\"02:00:00:00:00:01\"]\n";
        let read = Settings::read(text).unwrap();
        assert_eq!((read.max_age_s, read.hosts_per_port), (60, 9));
        assert!(read.routers.contains(&MacAddr([2, 0, 0, 0, 0, 1])));
    }

    #[test]
    fn mistake_names_its_line() {
        for (text, expected) in [
            ("\nmax-age = 1\n", "line 2: max-age is 10"),
            ("hosts-per-port = 0\n", "line 1: hosts-per-port"),
            ("\n\nrouters = [\"x\"]\n", "line 3: `x` is not"),
            ("ages = 1\n", "line 1: unknown field"),
        ] {
            let error = Settings::read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
