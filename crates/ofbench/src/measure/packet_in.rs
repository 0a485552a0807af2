//! Delay of a packet without a flow, split into its parts.
//!
//! This side is a relay: it answers each packet-in with a packet-out and installs nothing, or for flow set-up with a
//! flow-mod for exactly that flow and a packet-out. One packet is under way at a time.
//!
//! ```text
//! data path    = from the packet's entry to its exit, at the interfaces of the data path
//! control path = from the packet-in's arrival to the answer's departure, at the interface of the control channel
//! controller   = from the decoded packet-in to the encoded answer, in this process
//! switch       = data path - control path: the switch, and the network between it and this machine
//! ```
//!
//! So the switch, the rest of the control path (TCP and TLS on this side) and the controller add up to the data path. Two
//! delays of the same switch are measured beside each packet: of a frame that an installed flow forwards, and of an echo
//! request of the packet-in's size, which shows the network and the switch's reaction to any message.

use std::time::{Duration, Instant};

use openflow::{Action, FlowMod};

use super::bench::{Bench, PASS, ProbePacketIn};
use super::clock::Stamp;
use super::data_path::Way;
use super::forwarding::check_loss;
use super::row::{Row, Unit};
use super::session::REPLY;
use super::trouble::Trouble;

/// The flow of the forwarded frames.
const FORWARDED: u32 = 2;

/// Runs before the first that counts.
const WARM_UP: usize = 10;

/// Pause between two runs.
const GAP: Duration = Duration::from_millis(1);

/// How packet-ins are answered, and whether the switch keeps the packets meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relay {
    /// Whether the switch is to buffer the packets.
    pub(super) buffered: bool,
    /// Whether the answer contains a flow-mod.
    pub(super) installs: bool,
}

impl Relay {
    /// Returns the first words of the names of its rows.
    pub(super) fn name(self) -> String {
        let what = if self.installs { "flow set-up" } else { "packet-in" };
        format!("{what}, {}", if self.buffered { "buffered" } else { "whole" })
    }
}

/// The samples of each part, in microseconds.
#[derive(Debug, Default)]
struct Parts {
    data_path: Vec<f64>,
    control_path: Vec<f64>,
    controller: Vec<f64>,
    switch: Vec<f64>,
    forwarding: Vec<f64>,
    echo: Vec<f64>,
}

/// Measures the parts.
pub(super) fn measure(bench: &mut Bench<'_>, relay: Relay) -> Result<Vec<Row>, Trouble> {
    let name = relay.name();
    bench.ports()?;
    bench.session.reset_flows(relay.buffered)?;
    bench.queue_forwarding(FORWARDED, 100)?;
    bench.session.apply("flow-mods", 1, REPLY)?;
    let (runs, flows) = (bench.plan.runs, bench.new_flows(u32::MAX >> 12));
    let (mut parts, mut lost, mut size) = (Parts::default(), 0, 64);
    for (run, flow) in (0..runs + WARM_UP).zip(flows..) {
        (bench.progress)(&format!("{name}: packet {run} of {runs}"));
        let forwarding = bench.pass(FORWARDED)?.and_then(|arrival| arrival.delay_us());
        let echo = bench.echo(size)?;
        let relayed = relay_once(bench, flow, relay)?;
        bench.session.check_errors("answers", run + 1)?;
        if run < WARM_UP {
            size = relayed.map_or(size, |relayed| relayed.size);
        } else if let Some((forwarding, relayed)) = forwarding.zip(relayed) {
            parts.forwarding.push(forwarding);
            parts.echo.push(echo);
            parts.data_path.push(relayed.data_path);
            parts.control_path.push(relayed.control_path);
            parts.controller.push(relayed.controller);
            parts.switch.push(relayed.data_path - relayed.control_path);
        } else {
            lost += 1;
        }
        check_loss(lost, run + 1)?;
        std::thread::sleep(GAP);
    }
    let row = |part: &str, samples| Row::of(format!("{name}: {part}"), Unit::Us, samples);
    let mut rows = vec![
        row("data path", parts.data_path).lost(lost, runs),
        row("control path", parts.control_path),
        row("controller", parts.controller),
        row("switch", parts.switch),
    ];
    if !relay.installs {
        rows.extend([row("forwarding", parts.forwarding), row("echo", parts.echo)]);
    }
    Ok(rows)
}

/// The delays of a relayed packet, in microseconds, and the size of its packet-in in bytes.
#[derive(Debug, Clone, Copy)]
struct Relayed {
    data_path: f64,
    control_path: f64,
    controller: f64,
    size: usize,
}

/// Sends a packet and answers its packet-in; `None` if it was lost on the way.
fn relay_once(bench: &mut Bench<'_>, flow: u32, relay: Relay) -> Result<Option<Relayed>, Trouble> {
    let probe = bench.probe(flow);
    bench.data()?.send(Way::Forth, probe)?;
    let Some(asked) = bench.packet_in(probe, Instant::now() + PASS)? else { return Ok(None) };
    if relay.buffered && asked.buffer_id.is_none() {
        let text = "the switch does not buffer packets: its packet-ins have no buffer id";
        return Err(Trouble::NotApplicable(text.into()));
    }
    queue_answer(bench, &asked, relay.installs)?;
    let decided = Stamp::now();
    let answered = bench.session.flush_stamped()?;
    let arrival = bench.data()?.wait_for(Way::Forth, probe, Instant::now() + PASS)?;
    let data_path = arrival.and_then(|arrival| arrival.delay_us());
    Ok(data_path.map(|data_path| Relayed {
        data_path,
        control_path: answered.us_since(asked.at),
        controller: decided.us_since(asked.decoded),
        size: asked.size,
    }))
}

/// Queues the answer to a packet-in: a packet-out, after a flow-mod if the flow is installed.
pub(super) fn queue_answer(
    bench: &mut Bench<'_>,
    asked: &ProbePacketIn,
    installs: bool,
) -> Result<(), Trouble> {
    if installs {
        let actions = [Action::output(bench.out_port())];
        let match_ = bench.exact(asked.probe.flow);
        bench.session.flow_mod(FlowMod::add(match_).priority(100).apply(&actions))?;
    }
    bench.queue_packet_out(asked)
}
