//! `rosemary flows add` and `rosemary flows delete`: writes flows as the operator's own owner, the app `operator`.

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use config::instance::InstancePaths;
use openflow::{FlowModCommand, Version};
use sdk::services::Service;
use sdk::services::operator::{Answer, Request};
use serde_json::{Map, Value, json};

use crate::client;
use crate::say;
use crate::switch_name::SwitchName;

const AFTER_HELP: &str = "\
MATCH is a list of fields of OpenFlow 1.3, such as in_port=1,eth_type=0x800,ipv4_dst=10.0.0.0/8; without it every packet \
matches. ACTIONS is a list such as output:2, set_field:eth_dst=02:00:00:00:00:01, push_vlan:0x8100, group:1, meter:1, goto_table:1; \
without it packets are dropped.

The app `operator` owns the flows: they have priorities of its band, and they return to a switch that lost them. `rosemary app enable \
operator` starts it.

Exit codes: 0 the switch has the change, or gets it later; 1 the change was refused, or Rosemary does not run; 2 wrong usage.";

/// Changes of flows.
#[derive(Debug, Clone, Subcommand)]
pub enum FlowsChange {
    /// Add a flow to a switch, or replace the one with its match and priority
    #[command(after_help = AFTER_HELP)]
    Add(AddArgs),
    /// Delete the operator's flows that a match covers
    #[command(after_help = AFTER_HELP)]
    Delete(DeleteArgs),
}

/// Options of `rosemary flows add`.
#[derive(Debug, Clone, Args)]
pub struct AddArgs {
    /// Which flow.
    #[command(flatten)]
    pub flow: FlowArgs,
    /// What happens to packets that match
    #[arg(long, default_value = "")]
    pub actions: String,
    /// Seconds without a packet after which the switch removes the flow; it is then not restored
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub idle_timeout: u16,
    /// Seconds after which the switch removes the flow; it is then not restored
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub hard_timeout: u16,
}

/// Options of `rosemary flows delete`.
#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    /// Which flows.
    #[command(flatten)]
    pub flow: FlowArgs,
}

/// Options that name flows.
#[derive(Debug, Clone, Args)]
pub struct FlowArgs {
    /// The switch: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name
    pub switch: SwitchName,
    /// The packets that match
    #[arg(long = "match", value_name = "MATCH", default_value = "")]
    pub match_: String,
    /// The table
    #[arg(long)]
    pub table: Option<u8>,
    /// The priority on the switch; `add` without it takes the middle of the operator's band, `delete` all priorities
    #[arg(long)]
    pub priority: Option<u16>,
    /// The cookie, at most 47 bits
    #[arg(long)]
    pub cookie: Option<String>,
    /// The instance to use.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Sends the change and reports what became of it.
///
/// # Errors
/// Rosemary or the app `operator` does not run, or the change was refused.
pub(super) fn run(change: &FlowsChange) -> anyhow::Result<()> {
    let (flow, request, command) = match change {
        FlowsChange::Add(args) => (&args.flow, added(args)?, FlowModCommand::Add),
        FlowsChange::Delete(DeleteArgs { flow }) => {
            let strict = flow.priority.is_some();
            let command =
                if strict { FlowModCommand::DeleteStrict } else { FlowModCommand::Delete };
            (flow, deleted(flow)?, command)
        }
    };
    let message = ofctl::flow_mod(Version::PREFERRED, &request, command)?;
    let monitor = client::connect(&flow.instance)?;
    let switch = flow.switch.dpid(&monitor)?;
    let service = monitor.service(Service::Operator)?;
    let request = Request::Change { dpid: switch.0, message: &message };
    let answer = service.request(&request.encode())?;
    match Answer::decode(&answer).context("the app operator sent an answer of another version")? {
        Answer::Done { priority: Some(priority) } => {
            say::note(format!("{switch} has the flow, with priority {priority}"));
            Ok(())
        }
        Answer::Done { priority: None } => {
            say::note(format!("{switch} has the change"));
            Ok(())
        }
        Answer::Later { why } => {
            say::note(format!("{switch} gets the change later: {why}"));
            Ok(())
        }
        Answer::Refused { why, .. } => Err(anyhow!("{why}")),
        other => bail!("the app operator sent {other:?}, which is no answer to a change"),
    }
}

/// Makes the JSON of a flow of its options.
fn named(flow: &FlowArgs) -> anyhow::Result<Map<String, Value>> {
    let mut request = Map::new();
    let mut match_ = Map::new();
    for field in flow.match_.split(',').filter(|field| !field.is_empty()) {
        let (name, value) = field
            .split_once('=')
            .with_context(|| format!("{field:?} is no field; expected a form such as in_port=1"))?;
        match_.insert(name.to_owned(), value.into());
    }
    request.insert("match".into(), Value::Object(match_));
    if let Some(cookie) = &flow.cookie {
        request.insert("cookie".into(), cookie.as_str().into());
    }
    Ok(request)
}

fn added(args: &AddArgs) -> anyhow::Result<Value> {
    let mut request = named(&args.flow)?;
    let actions = args.actions.split(',').filter(|it| !it.is_empty() && *it != "drop");
    let actions = actions.map(action).collect::<anyhow::Result<Vec<Value>>>()?;
    let priority = args.flow.priority.unwrap_or(openflow::FlowMod::DEFAULT_PRIORITY);
    for (key, value) in [
        ("actions", Value::from(actions)),
        ("table_id", args.flow.table.unwrap_or(0).into()),
        ("priority", priority.into()),
        ("idle_timeout", args.idle_timeout.into()),
        ("hard_timeout", args.hard_timeout.into()),
    ] {
        request.insert(key.into(), value);
    }
    Ok(Value::Object(request))
}

fn deleted(flow: &FlowArgs) -> anyhow::Result<Value> {
    let mut request = named(flow)?;
    if flow.cookie.is_some() {
        request.insert("cookie_mask".into(), u64::MAX.into());
    }
    let all = openflow::FlowMod::ALL_TABLES;
    request.insert("table_id".into(), flow.table.unwrap_or(all).into());
    request.insert("priority".into(), flow.priority.unwrap_or(0).into());
    Ok(Value::Object(request))
}

/// Makes the JSON of an action such as `output:2`.
fn action(text: &str) -> anyhow::Result<Value> {
    let (name, argument) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
    let kind = name.to_ascii_uppercase();
    let key = match kind.as_str() {
        "OUTPUT" => "port",
        "PUSH_VLAN" | "PUSH_MPLS" | "POP_MPLS" | "PUSH_PBB" => "ethertype",
        "SET_QUEUE" => "queue_id",
        "GROUP" => "group_id",
        "METER" => "meter_id",
        "GOTO_TABLE" => "table_id",
        "SET_NW_TTL" => "nw_ttl",
        "SET_MPLS_TTL" => "mpls_ttl",
        "SET_FIELD" => {
            let field = argument.and_then(|it| it.split_once('='));
            let (field, value) = field.with_context(|| {
                format!("{text:?}: expected a form such as set_field:vlan_pcp=3")
            })?;
            return Ok(json!({"type": kind, "field": field, "value": value}));
        }
        _ => "",
    };
    match (argument, key) {
        (None, "") => Ok(json!({"type": kind})),
        (Some(argument), key) if !key.is_empty() => Ok(json!({"type": kind, key: argument})),
        (None, _) => bail!("{text:?} needs an argument, as in output:2"),
        (Some(_), _) => {
            bail!("{text:?} is no action with an argument; see `rosemary flows add --help`")
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use openflow::FlowMod;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(subcommand)]
        change: FlowsChange,
    }

    fn made(args: &[&str]) -> anyhow::Result<String> {
        let command = Command::try_parse_from([&["flows"], args].concat())?;
        let (request, command) = match &command.change {
            FlowsChange::Add(args) => (added(args)?, FlowModCommand::Add),
            FlowsChange::Delete(args) => (deleted(&args.flow)?, FlowModCommand::Delete),
        };
        let message = ofctl::flow_mod(Version::PREFERRED, &request, command)?;
        Ok(FlowMod::decode(&message)?.to_string())
    }

    #[test]
    fn options_become_a_flow_mod() {
        let actions =
            "--actions=set_field:eth_dst=02:00:00:00:00:01,push_vlan:0x8100,output:2,goto_table:1";
        let text =
            made(&["add", "1", "--match=in_port=1,eth_type=0x800", actions, "--priority=49600"]);
        let text = text.unwrap();
        for part in ["in_port=1", "eth_type=0x0800", "02:00:00:00:00:01", "goto_table:1", "49600"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(made(&["delete", "1", "--cookie=0x5"]).unwrap().contains("0x5"));
    }

    #[test]
    fn wrong_options_are_refused() {
        for args in [
            &["add", "1", "--match=in_port"][..],
            &["add", "1", "--match=nonsense=1"],
            &["add", "1", "--actions=output"],
            &["add", "1", "--actions=pop_vlan:3"],
            &["add", "1", "--actions=fly"],
            &["add"],
        ] {
            assert!(made(args).is_err(), "{args:?}");
        }
    }
}
