//! Names a switch on the command line: by its datapath id, or by its name.
//!
//! OpenFlow has no names of switches. Open vSwitch gives the local port of a bridge the name of the bridge, so a switch is called
//! like its local port (`SwitchStatus::name`). The switch chooses that name: two can have the same, and a name is known only while
//! the switch is connected. The datapath id counts if a word is both.

use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;
use control::query::SwitchStatus;
use openflow::Dpid;

use crate::client::{Kernel, Monitor};

/// Explains the argument SWITCH, for the help of commands.
macro_rules! about_switch {
    () => {
        "SWITCH is a datapath id in any usual form: 00:00:00:00:00:00:00:01, 0000000000000001, of:0000000000000001, 0x1 or 1; or the \
         name of a connected switch, which is that of its local port: Open vSwitch gives it the name of the bridge."
    };
}
pub(crate) use about_switch;

/// Maximum length of a name, which is that of a port (OpenFlow 1.3.5 §7.2.1).
const LONGEST: usize = 16;

/// Most switches that an error lists.
const MOST_LISTED: usize = 16;

/// An operator's word for a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchName {
    /// Its datapath id.
    Dpid(Dpid),
    /// The name of its local port.
    Name(String),
}

impl FromStr for SwitchName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mistake = match text.parse() {
            Ok(dpid) => return Ok(Self::Dpid(dpid)),
            Err(mistake) => mistake,
        };
        let is_name = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(|it| it.is_ascii_graphic() && it != b':');
        if is_name {
            Ok(Self::Name(text.to_owned()))
        } else {
            Err(format!("{mistake}, or the name of a switch"))
        }
    }
}

impl fmt::Display for SwitchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dpid(dpid) => dpid.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl SwitchName {
    /// Returns the datapath id. A switch that is named by it need not be connected.
    ///
    /// # Errors
    /// Not exactly one connected switch has the name, or the kernel does not reply.
    pub(crate) fn dpid(&self, monitor: &Monitor) -> anyhow::Result<Dpid> {
        match self {
            Self::Dpid(dpid) => Ok(*dpid),
            Self::Name(_) => self.dpid_of(&monitor.kernel()?),
        }
    }

    /// Like [`dpid`](Self::dpid), with a connection to the kernel.
    pub(crate) fn dpid_of(&self, kernel: &Kernel) -> anyhow::Result<Dpid> {
        match self {
            Self::Dpid(dpid) => Ok(*dpid),
            Self::Name(name) => among(name, &kernel.switches()?),
        }
    }
}

/// Returns the only one of `switches` that has this name.
fn among(name: &str, switches: &[SwitchStatus]) -> anyhow::Result<Dpid> {
    let named: Vec<&SwitchStatus> =
        switches.iter().filter(|it| it.name.as_deref() == Some(name)).collect();
    match &named[..] {
        [one] => Ok(one.dpid.parse()?),
        [] => {
            let known = switches.iter().filter_map(|it| it.name.as_deref());
            let meant = config::nearest(name, known);
            let meant = meant.map_or_else(String::new, |it| format!("; did you mean {it}?"));
            Err(anyhow!("no connected switch has the name {name}{meant}; {}", connected(switches)))
        }
        several => {
            let dpids: Vec<&str> =
                several.iter().map(|it| it.dpid.as_str()).take(MOST_LISTED).collect();
            let len = several.len();
            Err(anyhow!(
                "{len} switches have the name {name}; use a datapath id: {}",
                listed(&dpids, len)
            ))
        }
    }
}

/// Returns the error about a switch that is not connected, with the connected ones.
pub(crate) fn not_connected(kernel: &Kernel, dpid: Dpid) -> anyhow::Error {
    match kernel.switches() {
        Ok(switches) => anyhow!("{dpid} is not connected; {}", connected(&switches)),
        Err(error) => error.into(),
    }
}

/// Lists the connected switches, with their names.
fn connected(switches: &[SwitchStatus]) -> String {
    if switches.is_empty() {
        return "no switch is connected".to_owned();
    }
    let shown = |it: &SwitchStatus| match &it.name {
        Some(name) => format!("{} ({name})", it.dpid),
        None => it.dpid.clone(),
    };
    let shown: Vec<String> = switches.iter().take(MOST_LISTED).map(shown).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    format!("connected: {}", listed(&shown, switches.len()))
}

/// Joins the first words of a list of `len`.
fn listed(first: &[&str], len: usize) -> String {
    let others = len - first.len();
    let others = if others > 0 { format!(", and {others} more") } else { String::new() };
    format!("{}{others}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(number: u64, name: Option<&str>) -> SwitchStatus {
        serde_json::from_value(serde_json::json!({
            "dpid": Dpid(number).to_string(), "name": name, "version": "1.3", "address": "127.0.0.1:1",
            "transport": "tcp", "epoch": 1, "ports": 1, "packet_ins": 0, "dropped": 0, "flow_mods": 0,
            "packet_outs": 0, "refused": 0, "errors": 0,
        }))
        .unwrap()
    }

    #[test]
    fn datapath_id_counts_before_a_name() {
        for text in ["00:00:00:00:00:00:00:0a", "0xa", "10", "of:000000000000000a"] {
            assert_eq!(text.parse(), Ok(SwitchName::Dpid(Dpid(10))), "{text}");
        }
        assert_eq!("s10".parse(), Ok(SwitchName::Name("s10".into())));
        for text in ["", "00:00:0a", "a b", "name-of-17-chars."] {
            let error = text.parse::<SwitchName>().expect_err(text);
            assert!(error.contains("0x1 or 1, or the name of a switch"), "{error}");
        }
    }

    #[test]
    fn only_switch_of_a_name_is_found() {
        let switches = [switch(1, Some("s1")), switch(2, Some("s2")), switch(3, None)];
        assert_eq!(among("s2", &switches).unwrap(), Dpid(2));
    }

    #[test]
    fn unknown_name_error_lists_names() {
        let error = among("br-cor", &[switch(1, Some("br-core")), switch(2, None)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no connected switch has the name br-cor; did you mean br-core?; connected: \
             00:00:00:00:00:00:00:01 (br-core), 00:00:00:00:00:00:00:02"
        );
        let error = among("s1", &[]).unwrap_err().to_string();
        assert_eq!(error, "no connected switch has the name s1; no switch is connected");
        let error = among("s1", &vec![switch(1, None); 20]).unwrap_err().to_string();
        assert!(error.ends_with(", and 4 more"), "{error}");
    }

    #[test]
    fn ambiguous_name_error_lists_datapath_ids() {
        let switches = [switch(1, Some("br0")), switch(2, Some("br0"))];
        let error = among("br0", &switches).unwrap_err().to_string();
        assert_eq!(
            error,
            "2 switches have the name br0; use a datapath id: 00:00:00:00:00:00:00:01, 00:00:00:00:00:00:00:02"
        );
    }
}
