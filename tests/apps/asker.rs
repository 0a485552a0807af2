//! A control app that writes flows, groups and meters of its own, sends every kind of request once a second, and logs
//! the replies.
//!
//! It logs an error if it sees something that it must never see, such as a flow of another app.

#![forbid(unsafe_code)]

use std::time::Duration;

use rosemary_sdk::openflow::{
    Bucket, FlowModFlags, FlowStatsRequest, GroupKind, GroupMod, GroupModCommand, Kind, MeterBand,
    MeterFlags, MeterMod, MeterModCommand, MultipartRequest, ReplyBody,
};
use rosemary_sdk::{
    Action, App, Event, FlowMod, FlowRemoved, MacAddr, Match, Network, PortNo, Reply, SendError,
    Switch, SwitchError, Xid, export_app,
};

/// Cookies of the flow that stays, and of the one that times out.
const STAYS: u64 = 0x1234;
const GOES: u64 = 0xabcd_ef01_2345;
/// Cookie of the flow that the switch refuses, because it overlaps the first.
const OVERLAPS: u64 = 0x77;

const PRIORITY: u16 = 2;
const GROUP: u32 = 1;
const METER: u32 = 3;

#[derive(Default)]
struct Asker {
    switch: Option<Switch>,
    round: u32,
    refused: Option<Xid>,
    barrier: Option<Xid>,
    /// Pending requests, to detect a reply to another one.
    asked: Vec<Xid>,
}

impl App for Asker {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let result = match event {
            Event::SwitchUp(switch) => self.begin(switch, network),
            Event::Reply(reply) => {
                self.reply(&reply, network);
                Ok(())
            }
            Event::Error(error) => {
                self.error(&error, network);
                Ok(())
            }
            Event::FlowRemoved(removed) => {
                gone(&removed, network);
                Ok(())
            }
            Event::Refused { why, remedy, .. } => {
                network.error(&format!("refused: {why:?}: {}", remedy.unwrap_or("no remedy")));
                Ok(())
            }
            Event::Lost(count) => {
                network.error(&format!("lost {count}"));
                Ok(())
            }
            _ => Ok(()),
        };
        self.after(result, network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        let result = self.ask(network);
        self.after(result, network);
    }
}

impl Asker {
    fn after(&self, result: Result<(), SendError>, network: &mut Network<'_>) {
        if let Err(error) = result {
            network.error(&format!("could not send: {error}"));
        }
        if self.switch.is_some() {
            let now = network.now();
            network.wake_at(now + Duration::from_secs(1));
        }
    }

    /// Writes its flows, group and meter, and one flow that the switch refuses.
    fn begin(&mut self, switch: Switch, network: &mut Network<'_>) -> Result<(), SendError> {
        self.switch = Some(switch);
        let to_port_1 = [Action::output(PortNo(1))];
        let stays = FlowMod::add(Match::new().eth_dst(MacAddr([2, 0, 0, 0, 0xee, 1])))
            .priority(PRIORITY)
            .cookie(STAYS)
            .apply(&to_port_1);
        network.flow_mod(switch, &stays)?;
        let goes = FlowMod::add(Match::new().eth_dst(MacAddr([2, 0, 0, 0, 0xee, 2])))
            .priority(PRIORITY)
            .cookie(GOES)
            .idle_timeout(1)
            .flags(FlowModFlags::SEND_FLOW_REM)
            .apply(&to_port_1);
        network.flow_mod(switch, &goes)?;
        let overlaps = FlowMod::add(Match::new().in_port(PortNo(1)))
            .priority(PRIORITY)
            .cookie(OVERLAPS)
            .flags(FlowModFlags::CHECK_OVERLAP)
            .apply(&to_port_1);
        network.flow_mod(switch, &overlaps)?;
        self.refused = Some(network.last_xid());
        if switch.version.features().meters {
            let group = GroupMod {
                command: GroupModCommand::Add,
                kind: GroupKind::All,
                group_id: GROUP,
                buckets: vec![Bucket::new([Action::output(PortNo(2))])],
            };
            network.group_mod(switch, &group)?;
            let meter = MeterMod {
                command: MeterModCommand::Add,
                flags: MeterFlags::KBPS,
                meter_id: METER,
                bands: vec![MeterBand::Drop { rate: 1000, burst_size: 0 }],
            };
            network.meter_mod(switch, &meter)?;
            let to_group = [Action::Group(GROUP)];
            let through = FlowMod::add(Match::new().eth_dst(MacAddr([2, 0, 0, 0, 0xee, 3])))
                .priority(PRIORITY)
                .cookie(STAYS + 1)
                .apply(&to_group)
                .meter(METER);
            network.flow_mod(switch, &through)?;
        }
        self.barrier = Some(network.barrier(switch)?);
        self.asked.extend(self.barrier);
        Ok(())
    }

    fn ask(&mut self, network: &mut Network<'_>) -> Result<(), SendError> {
        let Some(switch) = self.switch else { return Ok(()) };
        self.round += 1;
        let flows = FlowStatsRequest::new(Match::new());
        let mut requests =
            vec![MultipartRequest::Flow(flows.clone()), MultipartRequest::PortStats(PortNo::ANY)];
        if switch.version.features().meters {
            let all = MeterMod::ALL_METERS;
            requests.push(MultipartRequest::Aggregate(flows));
            requests.push(MultipartRequest::GroupDesc);
            requests.push(MultipartRequest::MeterConfig(all));
        }
        for request in &requests {
            self.asked.push(network.request(switch, request)?);
        }
        self.asked.push(network.get_config(switch)?);
        Ok(())
    }

    fn reply(&mut self, reply: &Reply<'_>, network: &Network<'_>) {
        let Some(at) = self.asked.iter().position(|xid| *xid == reply.xid) else {
            return network.error(&format!("nobody asked with {:?}", reply.xid));
        };
        if reply.kind == Kind::BarrierReply {
            let own = self.barrier == Some(reply.xid);
            return network.info(&format!("barrier passed, {own}"));
        }
        if reply.kind == Kind::GetConfigReply {
            self.asked.swap_remove(at);
            let whole = reply.config().map(|config| config.miss_send_len == u16::MAX);
            if whole != Ok(true) {
                network.error(&format!("another configuration: {:?}", reply.config()));
            }
            return;
        }
        let round = self.round;
        match reply.multipart() {
            Ok(part) => {
                if !part.more {
                    self.asked.swap_remove(at);
                }
                told(round, &part.body, network);
            }
            Err(error) => network.error(&format!("no multipart reply: {error}")),
        }
    }

    fn error(&self, error: &SwitchError<'_>, network: &Network<'_>) {
        let quoted = Xid::of(error.error.data);
        let own = self.refused == Some(error.xid) && quoted == Some(error.xid);
        network.info(&format!("could not: {}, mine: {own}", error.error));
    }
}

fn told(round: u32, body: &ReplyBody<'_>, network: &Network<'_>) {
    match body {
        ReplyBody::Flow(flows) => {
            let mut cookies: Vec<u64> = flows.iter().map(|flow| flow.cookie).collect();
            cookies.sort_unstable();
            network.info(&format!("round {round}: flows {cookies:x?}"));
            let all_own =
                flows.iter().all(|flow| network.own_priority(flow.priority) == Some(PRIORITY));
            if !all_own {
                network.error("a flow of somebody else");
            }
        }
        ReplyBody::PortStats(ports) => {
            let packets: u64 = ports.iter().map(|port| port.rx_packets).sum();
            let numbers = ports.iter().filter(|port| port.port_no.is_physical()).count();
            let some = packets > 0;
            network.info(&format!("round {round}: {numbers} ports, packets: {some}"));
        }
        ReplyBody::Aggregate(sum) => {
            network.info(&format!("round {round}: {} flows in all", sum.flow_count));
        }
        ReplyBody::GroupDesc(groups) => {
            let own: Vec<_> =
                groups.iter().map(|group| network.own_group(group.group_id)).collect();
            network.info(&format!("round {round}: groups {own:?}"));
        }
        ReplyBody::MeterConfig(meters) => {
            let own: Vec<_> =
                meters.iter().map(|meter| network.own_meter(meter.meter_id)).collect();
            network.info(&format!("round {round}: meters {own:?}"));
        }
        other => network.error(&format!("not asked for: {other:?}")),
    }
}

fn gone(removed: &FlowRemoved<'_>, network: &Network<'_>) {
    let whole = removed.decode();
    let same = whole.as_ref().is_ok_and(|whole| {
        whole.cookie == removed.cookie && network.own_priority(whole.priority) == Some(PRIORITY)
    });
    network.info(&format!("gone: {:#x}, {:?}, {same}", removed.cookie, removed.reason));
}

export_app!(Asker, name = "asker");
