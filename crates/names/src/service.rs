//! Names the services of Rosemary, and states what each publishes and which right its clients need.

/// A service, as an application names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Service {
    /// Values under keys, durable.
    Storage = 1,
    /// Connections to hosts.
    Broker = 2,
    /// Switches, ports and links.
    Topology = 3,
    /// Hosts, their addresses and where they are attached.
    Hosts = 4,
    /// Counters and rates of switches.
    Stats = 5,
    /// Counters of applications, and limits for them.
    Apps = 6,
    /// Flows that the operator writes. For Rosemary's own programs.
    Operator = 7,
    /// Flows that clients of Ryu's REST interface write. For Rosemary's own programs.
    Ofctl = 8,
    /// The databases of switches.
    Ovsdb = 9,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 9] = [
        Self::Storage,
        Self::Broker,
        Self::Topology,
        Self::Hosts,
        Self::Stats,
        Self::Apps,
        Self::Operator,
        Self::Ofctl,
        Self::Ovsdb,
    ];

    /// Returns the service with this number in the ABI.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// Returns its number in the ABI.
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// Whether an app may name it in `services`.
    pub fn is_for_apps(self) -> bool {
        !matches!(self, Self::Operator | Self::Ofctl)
    }

    /// Returns the service with this name in the configuration.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Broker => "broker",
            Self::Topology => "topology",
            Self::Hosts => "hosts",
            Self::Stats => "stats",
            Self::Apps => "apps",
            Self::Operator => "operator",
            Self::Ofctl => "ofctl",
            Self::Ovsdb => "ovsdb",
        }
    }

    /// Returns the number of slots of the table that the service publishes; `None` if it publishes none. An
    /// application of the same name provides a service with a table.
    pub fn table_slots(self) -> Option<u32> {
        match self {
            Self::Storage | Self::Broker | Self::Apps | Self::Ovsdb => None,
            Self::Topology | Self::Stats => Some(1 << 17),
            Self::Hosts => Some(1 << 19),
            // It is empty: requests do everything.
            Self::Operator | Self::Ofctl => Some(64),
        }
    }

    /// Returns the capability that every client of the service needs.
    pub fn read_right(self) -> Option<&'static str> {
        match self {
            Self::Storage | Self::Broker | Self::Operator | Self::Ofctl => None,
            Self::Topology => Some("topology.read"),
            Self::Hosts => Some("hosts.read"),
            Self::Stats => Some("stats.read"),
            Self::Apps => Some("apps.read"),
            Self::Ovsdb => Some("ovsdb.read"),
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
