//! An application that wants what packets tell it, with its switches and its storage.

use std::collections::{BTreeMap, VecDeque};

use openflow::{
    Action, Bucket, FlowMod, GroupKind, GroupMod, GroupModCommand, Match, MeterBand, MeterFlags,
    MeterMod, MeterModCommand, PortNo, Version, append,
};
use rosemary_sdk::abi::{Record, RecordKind};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rosemary_sdk::wanted::{At, Exception, Owns, Settings, Wanted};
use rosemary_sdk::{App, Dpid, Event, Network};

use crate::fake::{self, FakeStorage, FakeSwitch};

/// Two versions that differ in everything that the library asks for.
pub(crate) const PAIR: [Version; 2] = [Version::V1_0, Version::V1_3];

/// All versions.
pub(crate) const VERSIONS: [Version; Version::COUNT] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

/// An application that wants what packets tell it.
pub(crate) struct Wisher(Wanted);

/// The flow of a number: its output says which variation of it.
pub(crate) fn out(variation: u8) -> [Action; 1] {
    [Action::output(PortNo(u32::from(variation) + 1))]
}

fn match_of(number: u16) -> Match {
    Match::new().eth_type(0x0800).ipv4_dst(std::net::Ipv4Addr::new(
        10,
        0,
        number.to_be_bytes()[0],
        number.to_be_bytes()[1],
    ))
}

pub(crate) fn group_of(number: u32, variation: u8) -> GroupMod {
    GroupMod {
        command: GroupModCommand::Add,
        kind: GroupKind::All,
        group_id: number,
        buckets: vec![Bucket::new(out(variation))],
    }
}

pub(crate) fn meter_of(number: u32, rate: u32) -> MeterMod {
    MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::KBPS,
        meter_id: number,
        bands: vec![MeterBand::Drop { rate, burst_size: 0 }],
    }
}

impl App for Wisher {
    fn create() -> Self {
        Self(Wanted::new(Settings::default()))
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let has = |word: &str| text.split_whitespace().any(|it| it == word);
        self.0 = Wanted::new(Settings {
            owns: if has("all") { Owns::All } else { Owns::Declared },
            at_once: has("at-once"),
            dry_run: has("dry-run"),
            keep: !has("forget"),
            exceptions: if has("except") {
                vec![Exception { table: Some(0), cookie: Some((0x70, 0xf0)) }]
            } else {
                Vec::new()
            },
            ..Settings::default()
        });
        if has("declare") {
            for number in 0..5 {
                self.wish(0, At::All, number, 0);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event
            && let [what, dpid, high, low, variation] = *packet_in.data
        {
            let at = if dpid == 0 { At::All } else { At::One(Dpid(dpid.into())) };
            self.wish(what, at, u16::from_be_bytes([high, low]), variation);
            if what == 9 {
                self.0.check(Dpid(dpid.into()), network);
            }
        }
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

impl Wisher {
    fn wish(&mut self, what: u8, at: At, number: u16, variation: u8) {
        let actions = out(variation);
        let flow = FlowMod::add(match_of(number)).priority(3).cookie(number.into()).apply(&actions);
        match what {
            0 => drop(self.0.flow(at, &flow).unwrap()),
            1 => drop(self.0.drop_flow(at, 0, 3, &match_of(number))),
            2 => drop(self.0.group(at, &group_of(number.into(), variation)).unwrap()),
            3 => drop(self.0.drop_group(at, number.into())),
            4 => drop(self.0.meter(at, &meter_of(number.into(), variation.into())).unwrap()),
            5 => drop(self.0.drop_meter(at, number.into())),
            6 => {
                let group = [Action::Group(number.into())];
                let flow = FlowMod::add(match_of(number)).priority(4).apply(&group).meter(1);
                self.0.flow(at, &flow).unwrap();
            }
            7 => self.0.keep_only_declared(),
            8 => {
                let flow = FlowMod::add(Match::new().vlan_vid(number).tcp_dst(1)).priority(9);
                self.0.flow(at, &flow.table(variation)).unwrap();
            }
            _ => {}
        }
    }
}

/// The application, its switches and its storage.
pub(crate) struct World {
    pub(crate) bench: Bench,
    /// Creates the application with a configuration.
    create: fn(&str) -> Bench,
    pub(crate) config: String,
    pub(crate) switches: Vec<FakeSwitch>,
    pub(crate) storage: FakeStorage,
    pub(crate) log: Vec<String>,
    /// Whether the kernel delivers the flows of switches.
    pub(crate) delivers: bool,
    pub(crate) most_in_a_turn: usize,
}

impl World {
    pub(crate) fn new(config: &str, versions: &[Version]) -> Self {
        Self::of(|config| Bench::configured::<Wisher>(config).unwrap(), config, versions)
    }

    /// As [`new`](Self::new), with another application that wants what packets tell it.
    pub(crate) fn of(create: fn(&str) -> Bench, config: &str, versions: &[Version]) -> Self {
        let switches = (1..).zip(versions).map(|(dpid, version)| FakeSwitch::new(dpid, *version));
        Self {
            bench: create(config),
            create,
            config: config.into(),
            switches: switches.collect(),
            storage: FakeStorage::default(),
            log: Vec::new(),
            delivers: true,
            most_in_a_turn: 0,
        }
    }

    pub(crate) fn start(config: &str, versions: &[Version]) -> Self {
        let mut world = Self::new(config, versions);
        world.snapshot();
        world
    }

    /// Delivers records, and the answers of switches and storage, until nothing happens any more.
    pub(crate) fn deliver(&mut self, records: Vec<AlignedRecord>) {
        let mut waiting: VecDeque<AlignedRecord> = records.into();
        let mut quiet = 0;
        for turn in 0.. {
            assert!(turn < 200_000, "it ends");
            let batch: Vec<AlignedRecord> = waiting.pop_front().into_iter().collect();
            let is_idle = batch.is_empty();
            let (answer, sent) = self.bench.batch(&batch).unwrap();
            assert_eq!(answer.handled, batch.len(), "it was handled");
            self.log.extend(self.bench.log());
            self.most_in_a_turn = self.most_in_a_turn.max(sent.len());
            let (asked, sets) = (self.bench.asked(), self.bench.commits());
            let is_quiet = is_idle && sent.is_empty() && asked.is_empty() && sets.is_empty();
            quiet = if is_quiet { quiet + 1 } else { 0 };
            for sent in sent {
                let switch = self.switches.iter_mut().find(|it| it.at.dpid == sent.dpid).unwrap();
                if switch.at.epoch == sent.epoch {
                    waiting.extend(switch.handle(&sent.message));
                }
            }
            for set in sets {
                let switch = self.switches.iter_mut().find(|it| it.at.dpid == set.dpid).unwrap();
                if switch.at.epoch == set.epoch {
                    waiting.extend(switch.commit(&set));
                }
            }
            for asked in asked {
                waiting.push_back(self.storage.handle(&asked));
            }
            // A turn takes a millisecond; the library looks again after 200 ms.
            if quiet > 250 && waiting.is_empty() {
                return;
            }
        }
    }

    pub(crate) fn snapshot(&mut self) {
        let mut records =
            vec![AlignedRecord::new(Record::new(RecordKind::SnapshotBegin, 0, 0, 0), &[])];
        let ups = self.switches.iter().map(|it| AlignedRecord::about(RecordKind::SwitchUp, it.at));
        records.extend(ups);
        records.push(AlignedRecord::new(Record::new(RecordKind::SnapshotEnd, 0, 0, 0), &[]));
        if self.delivers {
            records.extend(self.switches.iter().flat_map(FakeSwitch::kept));
        }
        self.deliver(records);
    }

    pub(crate) fn restart_app(&mut self) {
        self.bench = (self.create)(&self.config);
        self.snapshot();
    }

    pub(crate) fn restart_kernel(&mut self) {
        for switch in &mut self.switches {
            switch.at.epoch += 1;
        }
        self.snapshot();
    }

    pub(crate) fn reconnect(&mut self, index: usize, wipe: bool) {
        let switch = &mut self.switches[index];
        let down = AlignedRecord::about(RecordKind::SwitchDown, switch.at);
        switch.at.epoch += 1;
        if wipe {
            switch.wipe();
        }
        let mut records = vec![down, AlignedRecord::about(RecordKind::SwitchUp, switch.at)];
        records.extend(switch.kept());
        self.deliver(records);
    }

    pub(crate) fn tell(&mut self, what: u8, dpid: u8, number: u16, variation: u8) {
        let [high, low] = number.to_be_bytes();
        let at = self.switches[0].at;
        let data = [what, dpid, high, low, variation];
        self.deliver(vec![AlignedRecord::packet_in(at, PortNo(1), &data)]);
    }

    /// Puts a flow into a switch that the library knows nothing of.
    pub(crate) fn add_other(&mut self, index: usize, number: u16, cookie: u64) {
        let (actions, switch) = (out(200), &mut self.switches[index]);
        // The bench's priorities begin at 1 on the switch.
        let flow = FlowMod::add(match_of(number)).priority(6).cookie(cookie).apply(&actions);
        let mut message = Vec::new();
        append(&mut message, |out| flow.encode(switch.at.version, 0, out)).unwrap();
        switch.handle(&message);
    }

    /// The numbers and variations of the flows of priority 3.
    pub(crate) fn present(&self, index: usize) -> BTreeMap<u16, u32> {
        let flows = self.switches[index].flows.iter().map(fake::Flow::flow_mod);
        let of = |flow: FlowMod<'_>| {
            let port = flow.instructions.apply.iter().find_map(|action| match action {
                Action::Output { port, .. } => Some(port.0 - 1),
                _ => None,
            });
            (u16::try_from(flow.cookie & 0xffff).unwrap(), port.unwrap())
        };
        flows.filter(|flow| flow.priority == 4).map(of).collect()
    }

    pub(crate) fn has_logged(&self, words: &str) -> bool {
        self.log.iter().any(|line| line.contains(words))
    }
}

pub(crate) fn three() -> BTreeMap<u16, u32> {
    (0..3).map(|number| (number, 0)).collect()
}

/// A world whose application wants three flows in all switches.
pub(crate) fn with_three(config: &str, versions: &[Version]) -> World {
    let mut world = World::start(config, versions);
    (0..3).for_each(|number| world.tell(0, 0, number, 0));
    world
}
