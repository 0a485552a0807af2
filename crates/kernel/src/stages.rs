//! Runs the stages of the packet path one after the other and without sockets, for
//! `cargo bench -p rosemary-kernel --features bench`.
//!
//! There is one switch, and an app in each requested stage. The calling thread is also the zones' thread, so that the
//! benchmark measures the code and not the transfer of cache lines between cores.

use std::io;
use std::time::Instant;

use dal::SwitchInfo;
use openflow::{Dpid, Version};
use sys::ring::{DEFAULT_CAPACITY, Down, MAX_BATCH, RingFds, ZoneEnd};

use crate::app_port::{AppPort, Verdict, part};
use crate::dispatch::Dispatch;
use crate::ids::{AppSlot, ConnId};
use crate::pool::idle;
use crate::switch::Switch;
use crate::worker::note_received;
use control::app::AppId;
use control::flight::{FlightReader, FlightRecorder, FlightSlot};
use control::policy::Stage;

/// A switch and apps, without sockets and processes.
#[derive(Debug)]
pub struct Stages {
    dispatch: Dispatch,
    switch: Switch,
    zones: Vec<(Stage, ZoneEnd)>,
    now: Instant,
    copy: Vec<u8>,
    verdicts: Vec<Verdict>,
    flight_slot: Option<FlightSlot>,
}

impl Stages {
    /// Makes a switch of a version and an app in each of these stages, whose snapshot is complete.
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    ///
    /// # Panics
    /// Never; a part is made for each worker.
    pub fn new(version: Version, stages: &[Stage]) -> io::Result<Self> {
        let pool = idle(1);
        let (_, recorder) = FlightReader::new()?;
        let recorder = FlightRecorder::map(&recorder)?;
        let info = SwitchInfo {
            version,
            dpid: Dpid(1),
            n_tables: 1,
            n_buffers: 256,
            capabilities: openflow::Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        let mut made = Self {
            dispatch: Dispatch::default(),
            switch: Switch::new(info, 1),
            zones: Vec::new(),
            now: Instant::now(),
            copy: Vec::new(),
            verdicts: Vec::new(),
            flight_slot: Some(recorder.slot(0)),
        };
        for (index, stage) in stages.iter().enumerate() {
            let app = AppId(u16::try_from(index + 1).unwrap_or(u16::MAX - 1));
            let mut app_port = AppPort::new(
                app,
                "app".into(),
                AppSlot::new(index),
                pool.tuning(),
                pool.shared_quota(app),
            );
            app_port.policy.stage = *stage;
            let (mut parts, fds) = part::make(&pool, DEFAULT_CAPACITY)?;
            let [_, up, down, _] = <[_; 4]>::try_from(fds).expect("one worker's, and a bell");
            app_port.attach(parts.pop().expect("one worker's"));
            let zone = ZoneEnd::map(&RingFds { up, down }, DEFAULT_CAPACITY);
            made.zones.push((*stage, zone.map_err(io::Error::other)?));
            made.dispatch.app_ports.push(app_port);
        }
        made.dispatch.replan();
        for _ in 0..4 {
            made.turn(&[]); // the snapshot
        }
        Ok(made)
    }

    /// Decodes packet-ins of the switch and delivers them to the apps, as a worker does with the bytes that it has
    /// read.
    ///
    /// # Panics
    /// If `bytes` contains anything but whole packet-ins.
    pub fn packet_ins(&mut self, bytes: &mut [u8]) {
        let Self { dispatch, switch, now, flight_slot, .. } = self;
        let before = switch.counters.packet_ins;
        let taken = dispatch.packet_ins(ConnId(0), switch, bytes, *now);
        assert_eq!(taken.size, bytes.len(), "only packet-ins");
        let count = switch.counters.packet_ins.wrapping_sub(before);
        note_received(flight_slot, switch.dpid.0, bytes, count);
    }

    /// Has the zones handle the published records; a control app answers each with `answer`, if that is not empty. Then
    /// checks the answers as a worker does, and advances held packets. Returns the number of admitted messages.
    ///
    /// # Panics
    /// If an answer is refused, as the benchmark would then measure another path.
    pub fn turn(&mut self, answer: &[u8]) -> usize {
        let mut sent = 0;
        for (app_port, (stage, zone)) in self.dispatch.app_ports.iter_mut().zip(&mut self.zones) {
            app_port.pump([&mut self.switch].into_iter(), |_, _| true);
            app_port.publish();
            let records = zone.records.batch(MAX_BATCH).expect("an honest kernel").len();
            if *stage == Stage::Control && !answer.is_empty() {
                for _ in 0..records {
                    let room = zone.messages.reserve(answer.len()).expect("room");
                    room.copy_from_slice(answer);
                    assert!(zone.messages.commit(1, 1, answer.len()), "room");
                }
            }
            zone.messages.done(&mut zone.records, records);
        }
        for slot in AppSlot::first(self.dispatch.app_ports.len()) {
            let app_port = &mut self.dispatch.app_ports[slot];
            self.copy.clear();
            while let Some(down) =
                app_port.take(&mut self.copy, &mut self.verdicts).expect("an honest zone")
            {
                if let Down::Send { .. } = down {
                    let version = self.switch.version;
                    let rights = app_port.rights.at(self.switch.dpid.0);
                    let checked = rights.check(version, &self.copy);
                    checked.expect("an app may send this").mark(app_port.app, &mut self.copy);
                    sent += 1;
                    self.copy.clear();
                }
            }
            app_port.release();
            self.dispatch.verdicts(slot, &mut self.verdicts, self.now);
        }
        while self.dispatch.next_moved().is_some() {
            self.dispatch.advance(&mut self.switch, self.now);
        }
        sent
    }

    /// Returns the number of packet-ins that some app did not receive so far.
    pub fn dropped(&self) -> u64 {
        self.switch.counters.dropped
    }
}
