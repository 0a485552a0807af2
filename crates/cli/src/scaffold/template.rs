//! The templates of `rosemary app new`: what an app does at first.

use clap::ValueEnum;

/// A template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Template {
    /// Sends every packet out of all other ports
    Hub,
    /// Learns where hosts are and installs flows
    #[default]
    Switch,
    /// A guard that blocks TCP ports
    Firewall,
    /// Logs the packets per second of each port
    Stats,
}

impl Template {
    /// Returns the source of the app in Rust, with its tests.
    pub(super) fn rust(self) -> &'static str {
        match self {
            Self::Hub => include_str!("hub/lib.rs.txt"),
            Self::Switch => include_str!("switch/lib.rs.txt"),
            Self::Firewall => include_str!("firewall/lib.rs.txt"),
            Self::Stats => include_str!("stats/lib.rs.txt"),
        }
    }

    /// Returns the sources of the app in C and of its test.
    pub(super) fn c(self) -> (&'static str, &'static str) {
        match self {
            Self::Hub => (include_str!("hub/app.c.txt"), include_str!("hub/test.c.txt")),
            Self::Switch => (include_str!("switch/app.c.txt"), include_str!("switch/test.c.txt")),
            Self::Firewall => {
                (include_str!("firewall/app.c.txt"), include_str!("firewall/test.c.txt"))
            }
            Self::Stats => (include_str!("stats/app.c.txt"), include_str!("stats/test.c.txt")),
        }
    }

    /// Returns what the app does, for its README.
    pub(super) fn does(self) -> &'static str {
        match self {
            Self::Hub => "floods every packet",
            Self::Switch => "learns where hosts are",
            Self::Firewall => "blocks TCP ports",
            Self::Stats => "logs the packets per second of each port",
        }
    }

    /// Returns the keys of `app.toml` and `[[app]]` that say what the app may do.
    pub(super) fn request(self) -> &'static str {
        match self {
            Self::Hub => "capabilities = [\"packet-in\", \"packet-out\"]",
            Self::Switch => "capabilities = [\"packet-in\", \"packet-out\", \"flow.write\"]",
            Self::Firewall => "stage = \"guard\"\ncapabilities = [\"packet-in\", \"flow.write\"]",
            Self::Stats => "stage = \"observe\"\ncapabilities = [\"packet-in\", \"stats.read\"]",
        }
    }

    /// Returns the part of `rosemary.toml` with the app that forwards packets, if this one does not.
    pub(super) fn behind(self) -> &'static str {
        match self {
            Self::Hub | Self::Switch => "",
            Self::Firewall | Self::Stats => {
                "\n# Forwards the packets; it ships with Rosemary\n[[app]]\nname = \"learning-switch\"\n"
            }
        }
    }
}
