//! `/stats/...`: what Ryu's `ofctl_rest` answers and changes.

use std::ops::RangeInclusive;

use ::ofctl::{Own, PortNow, Question};
use axum::http::StatusCode;
use control::query::EntryPart;
use openflow::{
    FlowModCommand, GroupModCommand, MacAddr, MeterModCommand, MultipartReply, ReplyBody, Version,
};
use sdk::services::Service;
use sdk::services::operator::{Answer, Refused, Request};
use serde_json::{Value, json};
use view::client::Kernel;

use super::Fault;
use crate::owner;
use crate::state::Api;

/// `/stats/switches`: the numbers of the connected switches.
pub(super) fn switches(api: &Api) -> Result<Value, Fault> {
    let switches = api.ask_kernel(Kernel::switches)?;
    Ok(switches
        .iter()
        .filter_map(|it| it.dpid.parse::<openflow::Dpid>().ok())
        .map(|it| it.0)
        .collect())
}

/// Returns a switch and its version.
fn switch(api: &Api, dpid: &Value) -> Result<(u64, Version), Fault> {
    let dpid = ::ofctl::integer("dpid", dpid)?;
    let name = openflow::Dpid(dpid).to_string();
    let switches = api.ask_kernel(Kernel::switches)?;
    let switch = switches.iter().find(|it| it.dpid == name);
    let switch =
        switch.ok_or_else(|| Fault::not_found(format!("no switch {dpid} is connected")))?;
    let version = switch.version.parse().unwrap_or(Version::PREFERRED);
    Ok((dpid, version))
}

/// The owner's numbers, to show what clients requested.
fn own(api: &Api) -> Result<Own, Fault> {
    match owner::request(api, Service::Ofctl, "", &Request::Numbers)? {
        Answer::Numbers(numbers) => Ok(Own {
            priorities: numbers.assigned.iter().map(|(asked, on)| (*on, *asked)).collect(),
            groups: numbers.groups,
            meters: numbers.meters,
        }),
        other => Err(fault(other)),
    }
}

fn fault(answer: Answer) -> Fault {
    let Answer::Refused { refused, why } = answer else {
        return Fault(StatusCode::BAD_GATEWAY, "the app ofctl sent an unexpected answer".into());
    };
    let status = match refused {
        Refused::NoSwitch => StatusCode::NOT_FOUND,
        Refused::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Refused::BadReply => StatusCode::BAD_GATEWAY,
        _ => StatusCode::BAD_REQUEST,
    };
    Fault(status, why)
}

/// `GET /stats/WHAT/DPID/ARGUMENTS`; the body filters flows.
pub(super) fn read(
    api: &Api,
    what: &str,
    dpid: &str,
    (arguments, filter): (&[&str], &Value),
) -> Result<Value, Fault> {
    if what == "role" && arguments.is_empty() {
        let (dpid, _) = switch(api, &dpid.into())?;
        return Ok(json!({dpid.to_string(): [{"role": "EQUAL", "generation_id": 0}]}));
    }
    let (dpid, version) = switch(api, &dpid.into())?;
    if what == "portdesc" && !version.features().port_desc && arguments.len() <= 1 {
        return known_ports(api, dpid);
    }
    let question = Question::named(version, what, arguments, filter)?;
    let question =
        question.ok_or_else(|| Fault::not_found("Ryu's REST interface has no such path"))?;
    let own = own(api)?;
    // A long reply does not fit into the ring of the app, so the kernel itself requests it.
    let part = match what {
        "tablefeatures" => Some(EntryPart::TableFeatures),
        _ if question.is_about_all_flows() => Some(EntryPart::Flows),
        _ => None,
    };
    let Some(part) = part else {
        let reply = owner::ask(api, Service::Ofctl, dpid, &question.message()?)?.map_err(fault)?;
        let shown = question.json(dpid, &reply, &own)?;
        // The kernel has removed the number of the app.
        return Ok(with_own_cookies(shown, dpid, OWN_COOKIE..=2 * OWN_COOKIE - 1));
    };
    let entries = api.ask_kernel(|kernel| kernel.entries(dpid, part))?;
    let missing = || Fault::not_found(format!("no switch {dpid} is connected"));
    let (reply, names) = entries.ok_or_else(missing)?;
    let shown = question.json(dpid, &reply, &own)?;
    let app = names.iter().find(|(_, name)| name == Service::Ofctl.name());
    let Some((app, _)) = app else { return Ok(shown) };
    let first = u64::from(app.0) << APP_SHIFT;
    Ok(with_own_cookies(shown, dpid, first..=first | ((1 << APP_SHIFT) - 1)))
}

/// The position of the app's number in a cookie.
const APP_SHIFT: u32 = 48;

/// The bit by which the app knows its entries; cookies of clients are below it.
const OWN_COOKIE: u64 = 1 << 47;

/// Shows the cookies of the app's own flows as clients chose them. They are within `own` in the reply.
fn with_own_cookies(mut shown: Value, dpid: u64, own: RangeInclusive<u64>) -> Value {
    let flows = shown.get_mut(dpid.to_string()).and_then(Value::as_array_mut);
    for flow in flows.into_iter().flatten() {
        if let Some(cookie) = flow.get("cookie").and_then(Value::as_u64)
            && own.contains(&cookie)
        {
            flow["cookie"] = (cookie & (OWN_COOKIE - 1)).into();
        }
    }
    shown
}

/// The ports of a switch, as the kernel knows them. OpenFlow 1.0 lists ports only when a switch connects.
fn known_ports(api: &Api, dpid: u64) -> Result<Value, Fault> {
    let ports = api.ask_kernel(|kernel| kernel.ports(dpid))?;
    let ports = ports.ok_or_else(|| Fault::not_found(format!("no switch {dpid} is connected")))?;
    let ports = ports.iter().map(|port| {
        let number = port.port.parse::<u32>().map_or_else(|_| Value::from(port.port.as_str()), Value::from);
        json!({"port_no": number, "name": port.name, "hw_addr": port.hw_addr, "state": u8::from(!port.up)})
    });
    let ports: Vec<Value> = ports.collect();
    Ok(json!({dpid.to_string(): ports}))
}

/// `DELETE /stats/flowentry/clear/DPID`
pub(super) fn clear(api: &Api, user: &str, dpid: &str) -> Result<(), Fault> {
    let (dpid, version) = switch(api, &dpid.into())?;
    let has_tables = version.features().multiple_tables;
    let all = if has_tables { json!({"table_id": "ALL"}) } else { json!({}) };
    change(api, user, dpid, &::ofctl::flow_mod(version, &all, FlowModCommand::Delete)?)
}

/// `POST /stats/WHAT/COMMAND`
pub(super) fn write(
    api: &Api,
    user: &str,
    (what, command): (&str, &str),
    body: &Value,
) -> Result<(), Fault> {
    if what == "experimenter" {
        let why = "no experimenter's message is granted to clients of this interface";
        return Err(Fault(StatusCode::NOT_IMPLEMENTED, why.into()));
    }
    if !matches!(what, "flowentry" | "groupentry" | "meterentry" | "portdesc") {
        return Err(Fault::not_found("Ryu's REST interface has no such path"));
    }
    let none = || Fault::invalid("dpid is missing");
    let (dpid, version) = switch(api, body.get("dpid").ok_or_else(none)?)?;
    let unknown = || Fault::not_found(format!("{what} has no command {command}"));
    let features = version.features();
    if what == "groupentry" && !features.groups || what == "meterentry" && !features.meters {
        let why = format!("OpenFlow {version} has neither groups nor meters");
        return Err(Fault(StatusCode::NOT_IMPLEMENTED, why));
    }
    let message = match what {
        "flowentry" => {
            let command = match command {
                "add" => FlowModCommand::Add,
                "modify" => FlowModCommand::Modify,
                "modify_strict" => FlowModCommand::ModifyStrict,
                "delete" => FlowModCommand::Delete,
                "delete_strict" => FlowModCommand::DeleteStrict,
                _ => return Err(unknown()),
            };
            ::ofctl::flow_mod(version, body, command)?
        }
        "groupentry" => {
            let command = match command {
                "add" => GroupModCommand::Add,
                "modify" => GroupModCommand::Modify,
                "delete" => GroupModCommand::Delete,
                _ => return Err(unknown()),
            };
            ::ofctl::group_mod(version, body, command)?
        }
        "meterentry" => {
            let command = match command {
                "add" => MeterModCommand::Add,
                "modify" => MeterModCommand::Modify,
                "delete" => MeterModCommand::Delete,
                _ => return Err(unknown()),
            };
            ::ofctl::meter_mod(version, body, command)?
        }
        _ if command == "modify" => {
            let now = port(api, (dpid, version), body)?;
            ::ofctl::port_mod(version, body, now)?
        }
        _ => return Err(unknown()),
    };
    change(api, user, dpid, &message)
}

fn change(api: &Api, user: &str, dpid: u64, message: &[u8]) -> Result<(), Fault> {
    match owner::request(api, Service::Ofctl, user, &Request::Change { dpid, message })? {
        Answer::Done { .. } | Answer::Later { .. } => Ok(()),
        other => Err(fault(other)),
    }
}

/// The present state of a request's port.
fn port(api: &Api, (dpid, version): (u64, Version), body: &Value) -> Result<PortNow, Fault> {
    let number = body.get("port_no").ok_or_else(|| Fault::invalid("port_no is missing"))?;
    let number = ::ofctl::port("port_no", number, version)?;
    let missing = || Fault::not_found("the switch has no such port");
    if !version.features().port_desc {
        let ports = api.ask_kernel(|kernel| kernel.ports(dpid))?.unwrap_or_default();
        let is_it = |it: &&control::details::PortDetails| it.port == number.0.to_string();
        let port = ports.iter().find(is_it).ok_or_else(missing)?;
        let hw_addr: MacAddr = port.hw_addr.parse().map_err(|_| missing())?;
        return Ok(PortNow { hw_addr, advertised: 0 }); // 0 changes nothing
    }
    let none = Value::Null;
    let question = Question::named(version, "portdesc", &[], &none)?.ok_or_else(missing)?;
    let messages = owner::ask(api, Service::Ofctl, dpid, &question.message()?)?.map_err(fault)?;
    let mut rest = messages.as_slice();
    while let Ok(header) = openflow::Header::decode(rest) {
        let Some((message, next)) = rest.split_at_checked(usize::from(header.length).max(8)) else {
            break;
        };
        rest = next;
        let Ok(reply) = MultipartReply::decode(message) else { break };
        let ReplyBody::PortDesc(ports) = reply.body else { break };
        if let Some(port) = ports.iter().find(|it| it.port_no == number) {
            return Ok(PortNow { hw_addr: port.hw_addr, advertised: port.advertised.0 });
        }
    }
    Err(missing())
}
