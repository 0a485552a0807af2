//! `/v1.0/topology/...`: what Ryu's `rest_topology` answers. Numbers of switches and ports are hexadecimal digits there.

use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::services::topology::{Endpoint, PortRecord, Record};
use serde_json::{Value, json};

use super::Fault;
use crate::state::Api;

/// Returns the switches, links or hosts; only those of one switch if it is named.
pub(super) fn json(api: &Api, what: &str, dpid: Option<u64>) -> Result<Value, Fault> {
    let records = api.ask_service(Service::Topology, |table| {
        let slots = (0..table.slots()).map(|slot| table.read(slot));
        Ok(slots.filter_map(|slot| Record::decode(&slot)).collect::<Vec<Record>>())
    })?;
    let is_wanted = |it: u64| dpid.is_none_or(|dpid| dpid == it);
    let ports: Vec<&PortRecord> = records
        .iter()
        .filter_map(|record| match record {
            Record::Port(port) => Some(port),
            _ => None,
        })
        .collect();
    let list: Vec<Value> = match what {
        "switches" => {
            let switches = records.iter().filter_map(|record| match record {
                Record::Switch(switch) if is_wanted(switch.dpid.0) => Some(switch.dpid),
                _ => None,
            });
            switches
                .map(|dpid| {
                    let own = ports.iter().filter(|port| port.at.dpid == dpid);
                    let own: Vec<Value> = own.map(|port| port_json(port)).collect();
                    json!({"dpid": format!("{:016x}", dpid.0), "ports": own})
                })
                .collect()
        }
        "links" => {
            let links = records.iter().filter_map(|record| match record {
                Record::Link(link) if is_wanted(link.from.dpid.0) => Some(link),
                _ => None,
            });
            links
                .map(|link| json!({"src": end(link.from, &ports), "dst": end(link.to, &ports)}))
                .collect()
        }
        "hosts" => return hosts(api, dpid, &ports),
        _ => return Err(Fault::not_found("Ryu's REST interface has no such path")),
    };
    Ok(list.into())
}

fn port_json(port: &PortRecord) -> Value {
    json!({
        "dpid": format!("{:016x}", port.at.dpid.0),
        "port_no": format!("{:08x}", port.at.port.0),
        "hw_addr": port.hw_addr.to_string(),
        "name": String::from_utf8_lossy(port.name()),
    })
}

fn end(at: Endpoint, ports: &[&PortRecord]) -> Value {
    let known = ports.iter().find(|port| port.at == at);
    known.map_or_else(
        || {
            json!({
                "dpid": format!("{:016x}", at.dpid.0), "port_no": format!("{:08x}", at.port.0),
                "hw_addr": "00:00:00:00:00:00", "name": "",
            })
        },
        |port| port_json(port),
    )
}

fn hosts(api: &Api, dpid: Option<u64>, ports: &[&PortRecord]) -> Result<Value, Fault> {
    let now_s = sys::clock::now_ns() / 1_000_000_000;
    let lines = api.ask_service(Service::Hosts, |table| Ok(view::hosts::lines(table, now_s)))?;
    let hosts = lines.into_iter().filter_map(|line| {
        let dpid_of = line.dpid.parse::<openflow::Dpid>().ok()?;
        let port = match line.port.parse::<u32>() {
            Ok(number) => openflow::PortNo(number),
            Err(_) => openflow::PortNo::LOCAL,
        };
        if dpid.is_some_and(|dpid| dpid != dpid_of.0) {
            return None;
        }
        let (ipv6, ipv4): (Vec<String>, Vec<String>) =
            line.addresses.into_iter().partition(|it| it.contains(':'));
        let at = Endpoint { dpid: dpid_of, port };
        Some(json!({"mac": line.mac, "ipv4": ipv4, "ipv6": ipv6, "port": end(at, ports)}))
    });
    Ok(hosts.collect())
}
