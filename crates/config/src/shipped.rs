//! Holds the settings of apps that ship with Rosemary and need other ones than the defaults.
//!
//! An `[[app]]` of such a name replaces them key by key, as it does with the manifest of a package.

use control::policy::{Capability, Fail, Filter, Grant, Stage};
use names::Service;

use super::app::AppConfig;
use super::band;
use super::rights::ServiceRight;
use super::role::{Need, Role};

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const LLDP: u16 = 0x88cc;

/// Returns the settings of an app that ships with Rosemary; `None` if it has the defaults of every app.
pub(super) fn settings(name: &str) -> Option<AppConfig> {
    use Capability::{
        FlowRead, FlowWrite, GroupWrite, MeterWrite, PacketIn, PacketOut, StatsRead, SwitchConfig,
        TopologyProbe,
    };
    let of = |stage, capabilities: &[Capability], services: &[Service]| {
        let read = services.iter().filter_map(|service| service.read_right());
        AppConfig {
            stage,
            capabilities: Grant::unscoped(capabilities),
            services: services.to_vec(),
            service_rights: read.filter_map(ServiceRight::named).collect(),
            ..AppConfig::defaults(name)
        }
    };
    let needs = |needs: &[Capability], services: &[Service]| {
        let needs = needs.iter().copied().map(Need::Capability);
        needs.chain(services.iter().copied().map(Need::Service)).collect::<Vec<_>>()
    };
    let sees = |ethertypes: &[u16]| Filter { ethertypes: ethertypes.to_vec(), ..Filter::default() };
    Some(match name {
        "topology" => AppConfig {
            filter: sees(&[LLDP, ARP, IPV6]),
            needs: needs(&[PacketOut, TopologyProbe], &[]),
            ..of(Stage::Observe, &[PacketIn, PacketOut, TopologyProbe], &[Service::Storage])
        },
        "hosts" => AppConfig {
            filter: sees(&[ARP, IPV4, IPV6]),
            needs: needs(&[], &[Service::Topology]),
            ..of(Stage::Observe, &[PacketIn, PacketOut], &[Service::Topology, Service::Storage])
        },
        // It needs no packet; ARP is the least of what a filter can name.
        "stats" => AppConfig {
            filter: sees(&[ARP]),
            needs: needs(&[StatsRead], &[]),
            ..of(Stage::Observe, &[PacketIn, StatsRead, FlowRead], &[])
        },
        // It needs no packet, as `stats`.
        "link-monitor" => AppConfig {
            filter: sees(&[ARP]),
            needs: needs(&[], &[Service::Topology]),
            ..of(Stage::Observe, &[PacketIn], &[Service::Topology])
        },
        // It needs no packet, as `stats`. The right to throttle an app names the app, so the operator adds it.
        "protection" => {
            let services = [Service::Apps, Service::Topology, Service::Stats, Service::Storage];
            let mut app = of(Stage::Observe, &[PacketIn, StatsRead], &services);
            app.service_rights.extend(ServiceRight::named("topology.drain"));
            let needs = needs(&[StatsRead], &[Service::Apps, Service::Topology, Service::Stats]);
            AppConfig { filter: sees(&[ARP]), needs, ..app }
        }
        "forwarding" => {
            let capabilities = [PacketIn, PacketOut, FlowWrite, GroupWrite, MeterWrite, StatsRead];
            let services = [Service::Topology, Service::Hosts];
            AppConfig {
                role: Role::Forwarder,
                needs: needs(&[PacketOut, FlowWrite], &services),
                ..of(Stage::Control, &capabilities, &services)
            }
        }
        "learning-switch" => AppConfig {
            role: Role::Forwarder,
            needs: needs(&[PacketOut, FlowWrite], &[]),
            ..AppConfig::defaults(name)
        },
        "firewall" => AppConfig {
            role: Role::Guard,
            needs: [vec![Need::Config], needs(&[FlowWrite], &[])].concat(),
            ..of(Stage::Guard(Fail::Closed), &[PacketIn, FlowWrite, StatsRead], &[])
        },
        "operator" | "ofctl" => {
            let capabilities =
                [PacketIn, FlowWrite, GroupWrite, MeterWrite, StatsRead, FlowRead, SwitchConfig];
            let band = if name == "operator" { band::OPERATOR } else { band::OFCTL };
            AppConfig {
                filter: sees(&[ARP]), // they need no packet
                band: Some(band),
                ..of(Stage::Observe, &capabilities, &[Service::Storage])
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_with_services_may_read_their_tables() {
        for name in ["topology", "hosts", "stats", "forwarding", "link-monitor", "protection"] {
            let app = settings(name).unwrap();
            let rights = app.granted().names(); // stats.read is a capability, too
            for right in app.services.iter().filter_map(|service| service.read_right()) {
                assert!(rights.iter().any(|it| it == right), "{name}: {right}");
            }
        }
        assert_eq!(settings("my-app"), None);
    }
}
