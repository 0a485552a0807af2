//! Reads the configuration of `forwarding`, a TOML file of its own:
//!
//! ```toml
//! [storm-control]
//! enabled = true
//! packet-ins-per-port = 1000   # of one port of hosts, per second
//! packet-ins-per-host = 300    # of one host, per second
//! hold-seconds = 10            # how long a switch drops the packets of an offender that would become packet-ins
//! ```

use serde::Deserialize;

/// The configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// The limits of storm control.
    pub(crate) storm_control: StormControl,
}

/// The limits of storm control.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StormControl {
    pub(crate) enabled: bool,
    /// Packet-ins per second.
    pub(crate) packet_ins_per_port: u32,
    /// Packet-ins per second.
    pub(crate) packet_ins_per_host: u32,
    pub(crate) hold_seconds: u16,
}

impl Default for StormControl {
    fn default() -> Self {
        Self {
            enabled: true,
            packet_ins_per_port: 1000,
            packet_ins_per_host: 300,
            hold_seconds: 10,
        }
    }
}

impl Config {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// A phrase that begins with the line.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, error.message())
        })?;
        let limits = &config.storm_control;
        let line = |key: &str| {
            let at = text.lines().position(|line| line.trim_start().starts_with(key));
            format!("line {}: {key}", at.map_or(1, |at| at + 1))
        };
        let rates = [
            ("packet-ins-per-port", limits.packet_ins_per_port),
            ("packet-ins-per-host", limits.packet_ins_per_host),
        ];
        for (key, rate) in rates {
            if !(1..=10_000_000).contains(&rate) {
                return Err(format!("{} is {rate}; write 1 to 10000000", line(key)));
            }
        }
        if !(1..=3600).contains(&limits.hold_seconds) {
            let is = limits.hold_seconds;
            return Err(format!("{} is {is}; write 1 to 3600", line("hold-seconds")));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_have_defaults() {
        assert_eq!(Config::read(""), Ok(Config::default()));
        let config = Config::read("[storm-control]\npacket-ins-per-host = 7\nenabled = false\n");
        let limits = config.expect("it is right").storm_control;
        assert_eq!((limits.packet_ins_per_host, limits.enabled), (7, false));
        assert_eq!(limits.hold_seconds, StormControl::default().hold_seconds);
    }

    #[test]
    fn mistakes_name_their_line() {
        let read = |text| Config::read(text).expect_err("a mistake");
        assert!(read("\n[storm-control]\nhold = 1\n").starts_with("line 3: unknown field `hold`"));
        let error = read("[storm-control]\nenabled = true\nhold-seconds = 0\n");
        assert_eq!(error, "line 3: hold-seconds is 0; write 1 to 3600");
        let error = read("[storm-control]\npacket-ins-per-port = 0");
        assert!(error.starts_with("line 2: packet-ins-per-port is 0"), "{error}");
    }
}
