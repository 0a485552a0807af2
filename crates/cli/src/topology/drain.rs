//! `rosemary switch drain`, `rosemary switch undrain`: keeps traffic away from a switch, or ends that.

use std::time::Instant;

use anyhow::{Context as _, Error, bail};
use clap::Args;
use config::instance::InstancePaths;
use sdk::Dpid;
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::services::topology::{Request, decode_answer};
use sdk::topology::Graph;
use view::carriers::{CARRIED, Carrier, carriers};
use view::drain::{BETWEEN, Verdict, Watch, link_ports};
use view::topology::remaining;

use crate::client::{self, Kernel};
use crate::say;
use crate::switch_name::SwitchName;

pub(crate) const AFTER_HELP: &str = "\
Apps such as `forwarding` move their paths away from a drained switch; only traffic of its own hosts still passes it. A \
drain stays until `undrain`, also over restarts of Rosemary and of the switch. The switch need not be connected \
if its datapath id names it: the drain is kept until it connects.

`drain` compares the switch's own counters, and says that the switch is drained when no packet of others has passed it for two \
seconds. If packets still pass after five seconds, it names the ports, the flows that carry most of the packets with their apps, \
and whether another path leads around the switch. Hosts that are attached to the switch are counted in any case, with their ports. `rosemary topology` says why traffic must \
remain later, too.

Exit codes: 0 done; 1 traffic of others still passes the switch, or its counters cannot be read, or Rosemary or the service does not \
run, or it could not store the change; 2 wrong usage.";

/// Options of `rosemary switch drain` and `undrain`.
#[derive(Debug, Clone, Args)]
pub struct DrainArgs {
    /// The switch: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name
    pub switch: SwitchName,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Begins the drain of a switch, or ends it unless `on`.
///
/// # Errors
/// Rosemary or the service does not run, or it refuses.
pub fn run(args: &DrainArgs, on: bool) -> anyhow::Result<()> {
    let monitor = client::connect(&args.instance)?;
    let switch = args.switch.dpid(&monitor)?;
    let service = monitor.service(Service::Topology)?;
    let answer = service.request(&Request::Drain { dpid: switch, on }.encode())?;
    match decode_answer(&answer) {
        Some(Ok(())) => {}
        Some(Err(refused)) => return Err(refused).context("the topology service refused"),
        None => bail!("the topology service sent an unexpected answer"),
    }
    let graph = Graph::of(service.records().map(|(_, it)| it));
    if graph.switch(switch).is_none() {
        let what = if on { "is to be drained" } else { "is no longer drained" };
        say::note(format_args!("switch {switch} {what}"));
        say::note(absent(switch, on));
        return Ok(());
    }
    if !on {
        say::note(format_args!("switch {switch} is no longer drained"));
        return Ok(());
    }
    let unknown = || {
        format!(
            "the drain of switch {switch} is stored; whether traffic of others still passes it is not known"
        )
    };
    let kernel = monitor.kernel().with_context(unknown)?;
    let links = link_ports(switch, &graph);
    let verdict = watch(&kernel, switch, &links);
    if matches!(verdict, Ok(Verdict::Empty)) {
        say::note(format_args!("switch {switch} is drained: no traffic of others passes it"));
    }
    for why in remaining(switch, &graph, super::hosts(&args.instance).as_ref()) {
        say::note(format_args!("traffic remains: {why}"));
    }
    match verdict.with_context(unknown)? {
        Verdict::Empty => Ok(()),
        Verdict::Passing(passing) => {
            match carrying(&kernel, switch, &links) {
                Ok(found) => found
                    .iter()
                    .for_each(|it| say::note(format_args!("traffic remains: {}", it.phrase()))),
                Err(error) => {
                    say::note(format_args!("the flows of the traffic are not known: {error:#}"));
                }
            }
            bail!(
                "switch {switch} is not drained yet: {}. The drain is stored. `rosemary flows {switch}` shows all flows; repeat the command \
                 to compare the counters again",
                passing.phrase()
            )
        }
    }
}

/// Returns the flows that carry traffic of others.
fn carrying(kernel: &Kernel, switch: Dpid, links: &[String]) -> anyhow::Result<Vec<Carrier>> {
    let read = || kernel.flows(switch.0).context("cannot query the flows of the switch");
    let before = read()?.unwrap_or_default();
    std::thread::sleep(CARRIED);
    let after = read()?.unwrap_or_default();
    Ok(carriers(&before, &after, CARRIED.as_secs_f64(), links))
}

/// Reads the counters of a switch until they show whether traffic of others passes it.
fn watch(kernel: &Kernel, switch: Dpid, links: &[String]) -> anyhow::Result<Verdict> {
    let read = || -> anyhow::Result<_> {
        let ports = kernel.ports(switch.0).context("cannot read its counters")?;
        Ok((Instant::now(), ports.context("it has disconnected")?))
    };
    let (now, ports) = read()?;
    let mut watch = Watch::new(links.to_vec(), now, ports);
    loop {
        std::thread::sleep(BETWEEN);
        let (now, ports) = read()?;
        if let Some(verdict) = watch.read(now, ports).map_err(Error::msg)? {
            return Ok(verdict);
        }
    }
}

/// Returns the warning about a switch that is not connected.
fn absent(switch: Dpid, on: bool) -> String {
    if on {
        format!(
            "warning: no switch {switch} is connected. If the datapath id is right, the drain begins when the switch connects; \
             otherwise remove it: `rosemary switch undrain {switch}`. `rosemary switches` lists the connected ones"
        )
    } else {
        format!(
            "no switch {switch} is connected; if it was drained, it is no longer when it connects"
        )
    }
}
