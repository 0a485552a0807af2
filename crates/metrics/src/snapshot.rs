//! Makes the text of a snapshot.

use std::collections::BTreeMap;
use std::time::Duration;

use control::account::{Account, Amounts};
use control::operator::{ProgramState, ProgramUsage, Status};
use control::query::{AppCounters, FlowMonitorState, Latencies, SwitchStatus};

use crate::catalogue as it;
use crate::exposition::Exposition;
use crate::histogram::Histogram;
use crate::incidents::IncidentCounts;
use crate::network::{self, Network};

/// Most switches that have series of their own.
pub const MOST_SWITCHES: usize = 1000;

/// The answers of monitor and kernel from which the metrics are made.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'s> {
    /// The version of this software.
    pub version: &'s str,
    /// The monitor's state of all programs; `None` if it did not answer.
    pub status: Option<&'s Status>,
    /// The use of limited resources.
    pub usage: &'s [ProgramUsage],
    /// The accounts since their beginning.
    pub accounts: &'s [Account],
    /// The kernel's switches and apps; `None` if it did not answer.
    pub kernel: Option<(&'s [SwitchStatus], &'s [AppCounters])>,
    /// What services know of the network.
    pub network: &'s Network,
    /// Counts of incidents.
    pub incidents: &'s IncidentCounts,
    /// The SHA-256 of the configuration in force, in hexadecimal digits, if there is a file.
    pub config: Option<&'s str>,
    /// Times of queries to the kernel.
    pub kernel_queries: &'s Histogram,
}

/// Returns the metrics as text.
pub fn text(snapshot: &Snapshot<'_>) -> String {
    let mut out = Exposition::default();
    about_rosemary(snapshot, &mut out);
    if let Some(status) = snapshot.status {
        programs(status, &mut out);
    }
    limits(snapshot.usage, &mut out);
    about_accounts(snapshot.accounts, &mut out);
    out.family(it::INCIDENTS, snapshot.incidents.iter());
    out.single(it::INCIDENTS_OPEN, snapshot.status.map(|_| snapshot.incidents.open()));
    out.histogram(it::INCIDENT_DURATION, snapshot.incidents.durations());
    if let Some((switches, _)) = snapshot.kernel {
        about_switches(switches, &mut out);
    }
    network::about(snapshot.network, &mut out);
    if let Some((_, apps)) = snapshot.kernel {
        about_apps(apps, &mut out);
    }
    out.histogram(it::KERNEL_QUERY, snapshot.kernel_queries);
    out.finish()
}

fn about_rosemary(snapshot: &Snapshot<'_>, out: &mut Exposition) {
    let status = snapshot.status;
    out.family(it::BUILD, [([snapshot.version.to_owned()], 1)]);
    out.single(it::UPTIME, status.map(|status| status.monitor.uptime_seconds));
    let sources = [("monitor", status.is_some()), ("kernel", snapshot.kernel.is_some())];
    out.family(it::SOURCE, sources.map(|(source, is_up)| ([source.to_owned()], u8::from(is_up))));
    out.family(it::CONFIG, snapshot.config.map(|sha256| ([sha256.to_owned()], 1)));
    let rejected = status.map(|status| u8::from(status.rejected.is_some()));
    out.single(it::CONFIG_REJECTED, rejected);
    out.single(it::SAFE_MODE, status.map(|status| u8::from(status.safe_mode.is_some())));
}

fn programs(status: &Status, out: &mut Exposition) {
    let kernel = &status.kernel;
    let mut all = vec![(["kernel".to_owned(), "kernel".to_owned()], kernel.state, kernel.restarts)];
    let services = status.services.iter().map(|it| ("service", &it.name, it.state, it.restarts));
    let apps = status.apps.iter().map(|it| ("app", &it.name, it.state, it.restarts));
    all.extend(
        services.chain(apps).map(|(kind, name, state, restarts)| {
            ([kind.to_owned(), name.clone()], state, restarts)
        }),
    );
    let is = |wanted: ProgramState| {
        let all = all.iter();
        all.map(move |(labels, state, _)| (labels.clone(), u8::from(*state == wanted)))
    };
    out.family(it::PROGRAM_UP, is(ProgramState::Running));
    out.family(it::PROGRAM_HELD, is(ProgramState::Held));
    out.family(it::RESTARTS, all.iter().map(|(labels, _, restarts)| (labels.clone(), *restarts)));
}

fn limits(usage: &[ProgramUsage], out: &mut Exposition) {
    let amounts = || {
        usage.iter().flat_map(|program| {
            let labels = |limit: &str| {
                [program.kind.replace(' ', "_"), program.name.clone(), limit.to_owned()]
            };
            program.uses.iter().map(move |amount| (labels(&amount.limit), program, amount))
        })
    };
    let some = |value: Option<u64>, labels| value.map(|value| (labels, value));
    let uses = amounts().filter_map(|(labels, _, amount)| some(amount.value, labels));
    out.family(it::LIMIT_USE, uses);
    let soft = amounts().filter_map(|(labels, _, amount)| some(amount.soft, labels));
    out.family(it::LIMIT_SOFT, soft);
    let hard = amounts().filter_map(|(labels, _, amount)| some(amount.hard, labels));
    out.family(it::LIMIT_HARD, hard);
    let limited = amounts().filter(|(_, _, amount)| amount.soft.is_some());
    let exceeded = limited
        .map(|(labels, program, amount)| (labels, u8::from(program.above.contains(&amount.limit))));
    out.family(it::LIMIT_EXCEEDED, exceeded);
}

fn about_accounts(accounts: &[Account], out: &mut Exposition) {
    let labels = |account: &Account| [account.session.clone(), account.member.clone()];
    let cpu = accounts.iter().map(|account| {
        (labels(account), Duration::from_nanos(account.amounts.cpu_ns).as_secs_f64())
    });
    out.family(it::ACCOUNT_CPU, cpu);
    let memory = accounts.iter().map(|it| (labels(it), it.amounts.memory_byte_seconds));
    out.family(it::ACCOUNT_MEMORY, memory);
    let directions = |of: fn(&Amounts) -> [u64; 2]| {
        accounts.iter().flat_map(move |account| {
            let [session, member] = labels(account);
            let [received, sent] = of(&account.amounts);
            [("received", received), ("sent", sent)].map(|(direction, amount)| {
                ([session.clone(), member.clone(), direction.to_owned()], amount)
            })
        })
    };
    out.family(it::ACCOUNT_MESSAGES, directions(|it| [it.received_messages, it.sent_messages]));
    out.family(it::ACCOUNT_BYTES, directions(|it| [it.received_bytes, it.sent_bytes]));
}

fn about_switches(switches: &[SwitchStatus], out: &mut Exposition) {
    let mut counts: BTreeMap<[String; 2], u32> = BTreeMap::new();
    for switch in switches {
        *counts.entry([switch.version.clone(), switch.transport.clone()]).or_default() += 1;
    }
    out.family(it::SWITCHES, counts);
    let shown = switches.get(..MOST_SWITCHES).unwrap_or(switches);
    out.single(it::SWITCHES_OMITTED, Some(switches.len() - shown.len()));
    let of = |value: fn(&SwitchStatus) -> u64| {
        shown.iter().map(move |switch| ([switch.dpid.clone()], value(switch)))
    };
    out.family(it::SWITCH_PORTS, of(|it| it.ports as u64));
    let flows = shown.iter().filter_map(|it| Some(([it.dpid.clone()], it.flows?)));
    out.family(it::SWITCH_FLOWS, flows);
    let fill = shown.iter().filter_map(|switch| {
        let fullest = switch.fullest.as_ref().filter(|it| it.size > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "no table has 2^52 flows")]
        let ratio = fullest.flows as f64 / f64::from(fullest.size);
        Some(([switch.dpid.clone(), fullest.table.to_string()], ratio))
    });
    out.family(it::SWITCH_FILL, fill);
    let messages = shown.iter().flat_map(|switch| {
        [
            ("packet_in", switch.packet_ins),
            ("error", switch.errors),
            ("flow_mod", switch.flow_mods),
            ("packet_out", switch.packet_outs),
        ]
        .map(|(kind, count)| ([switch.dpid.clone(), kind.to_owned()], count))
    });
    out.family(it::SWITCH_MESSAGES, messages);
    let dropped = shown.iter().flat_map(|switch| {
        [("apps", switch.dropped), ("guard", switch.guarded)]
            .map(|(reason, count)| ([switch.dpid.clone(), reason.to_owned()], count))
    });
    out.family(it::SWITCH_DROPPED, dropped);
    out.family(it::SWITCH_PAUSES, of(|it| it.pauses));
    out.family(it::SWITCH_REFUSED, of(|it| it.refused));
    out.family(it::SWITCH_MONITOR, of(|it| u64::from(it.flow_monitor == FlowMonitorState::On)));
    let requests = shown.iter().flat_map(|switch| {
        let of_reason =
            |(reason, count): (&String, &u64)| ([switch.dpid.clone(), reason.clone()], *count);
        switch.requests.iter().map(of_reason)
    });
    out.family(it::SWITCH_REQUESTS, requests);
    out.family(it::SWITCH_UNSENT, of(|it| it.unsent));
}

fn about_apps(apps: &[AppCounters], out: &mut Exposition) {
    let of = |value: fn(&AppCounters) -> u64| {
        apps.iter().map(move |app| ([app.name.clone()], value(app)))
    };
    out.family(it::APP_PACKET_INS, of(|it| it.delivered));
    out.family(it::APP_DROPPED, of(|it| it.dropped));
    out.family(it::APP_PASSED_OVER, of(|it| it.passed_over));
    let latencies = apps.iter().map(|app| {
        let Latencies { counts, sum_us } = &app.latencies;
        let sum = Duration::from_micros(*sum_us);
        ([app.name.clone()], Histogram::of(Histogram::PACKET_INS, counts, sum))
    });
    out.histograms(it::APP_LATENCY, latencies);
    out.family(it::APP_SKIPPED, of(|it| it.skipped.into()));
    let messages = apps.iter().flat_map(|app| {
        [("flow_mod", app.flow_mods), ("packet_out", app.packet_outs), ("request", app.requests)]
            .map(|(kind, count)| ([app.name.clone(), kind.to_owned()], count))
    });
    out.family(it::APP_MESSAGES, messages);
    out.family(it::APP_REFUSED, of(|it| it.refused));
    out.family(it::APP_LOST, of(|it| it.lost));
    out.family(it::APP_HANDLED, of(|it| it.handled));
    out.family(it::APP_WAITING, of(|it| it.waiting));
    out.family(it::APP_QUEUED, of(|it| it.queued));
    out.family(it::APP_UNSENT, of(|it| it.unsent));
    out.family(it::APP_THROTTLED, of(|it| it.slowed));
}

#[cfg(test)]
mod tests;
