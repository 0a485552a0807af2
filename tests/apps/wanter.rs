//! Wants flows in all switches: two that flood ARP and IPv4, and as many more as its configuration says. `count = 0` declares
//! none, so that the flows that the storage keeps are all that is wanted.

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use rosemary_sdk::wanted::{At, Settings, Wanted};
use rosemary_sdk::{Action, App, Event, FlowMod, Match, Network, PortNo, export_app};

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;

/// See the file's description.
struct Wanter(Wanted);

impl App for Wanter {
    fn create() -> Self {
        Self(Wanted::new(Settings::default()))
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let count =
            text.trim().strip_prefix("count = ").and_then(|count| count.parse::<u32>().ok());
        let count = count.ok_or("line 1: expected `count = NUMBER`")?;
        if count == 0 {
            return Ok(());
        }
        let flood = [Action::output(PortNo::FLOOD)];
        for ethertype in [ARP, IPV4] {
            let flow = FlowMod::add(Match::new().eth_type(ethertype)).priority(1).apply(&flood);
            self.0.flow(At::All, &flow).map_err(|error| error.to_string())?;
        }
        for number in 0..count {
            let to = Ipv4Addr::from_bits(0xac10_0000 + number);
            let drop = FlowMod::add(Match::new().eth_type(IPV4).ipv4_dst(to)).priority(2);
            self.0.flow(At::All, &drop.cookie(number.into())).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        for notice in self.0.on_event(&event, network) {
            network.info(&notice.to_string());
        }
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        for notice in self.0.on_wake(network) {
            network.info(&notice.to_string());
        }
    }
}

export_app!(Wanter, name = "wanter");
