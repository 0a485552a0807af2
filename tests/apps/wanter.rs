//! Wants flows in all switches: two that flood ARP and IPv4, and as many more as its configuration says. `count = 0` declares
//! none, so that the entries that the storage keeps are all that is wanted. With `metered` behind the number it also wants a
//! group, a meter, and a flow that floods IPv6 through both.

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use rosemary_sdk::openflow::{
    Bucket, GroupKind, GroupMod, GroupModCommand, MeterBand, MeterFlags, MeterMod, MeterModCommand,
};
use rosemary_sdk::wanted::{At, Settings, WantError, Wanted};
use rosemary_sdk::{Action, App, Event, FlowMod, Match, Network, PortNo, export_app};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

/// The number of the group and of the meter.
const NUMBER: u32 = 5;

/// See the file's description.
struct Wanter(Wanted);

impl App for Wanter {
    fn create() -> Self {
        Self(Wanted::new(Settings::default()))
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let count = match &words[..] {
            ["count", "=", count] | ["count", "=", count, "metered"] => count.parse::<u32>().ok(),
            _ => None,
        };
        let count = count.ok_or("line 1: expected `count = NUMBER`, or that and `metered`")?;
        if count == 0 {
            return Ok(());
        }
        self.want(count).map_err(|error| error.to_string())?;
        if words.contains(&"metered") {
            self.want_metered().map_err(|error| error.to_string())?;
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

impl Wanter {
    fn want(&mut self, count: u32) -> Result<(), WantError> {
        let flood = [Action::output(PortNo::FLOOD)];
        for ethertype in [ARP, IPV4] {
            let flow = FlowMod::add(Match::new().eth_type(ethertype)).priority(1).apply(&flood);
            self.0.flow(At::All, &flow)?;
        }
        for number in 0..count {
            let to = Ipv4Addr::from_bits(0xac10_0000 + number);
            let drop = FlowMod::add(Match::new().eth_type(IPV4).ipv4_dst(to)).priority(2);
            self.0.flow(At::All, &drop.cookie(number.into()))?;
        }
        Ok(())
    }

    fn want_metered(&mut self) -> Result<(), WantError> {
        let meter = MeterMod {
            command: MeterModCommand::Add,
            flags: MeterFlags::KBPS,
            meter_id: NUMBER,
            bands: vec![MeterBand::Drop { rate: 4000, burst_size: 0 }],
        };
        self.0.meter(At::All, &meter)?;
        let group = GroupMod {
            command: GroupModCommand::Add,
            kind: GroupKind::All,
            group_id: NUMBER,
            buckets: vec![Bucket::new([Action::output(PortNo::FLOOD)])],
        };
        self.0.group(At::All, &group)?;
        let to = [Action::Group(NUMBER)];
        let flow = FlowMod::add(Match::new().eth_type(IPV6)).priority(1).apply(&to).meter(NUMBER);
        self.0.flow(At::All, &flow).map(drop)
    }
}

export_app!(Wanter, name = "wanter");
