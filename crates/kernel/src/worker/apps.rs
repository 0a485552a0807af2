//! From and to apps: what they said is checked and sent, what is for them is shown.

use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use sdk::Refusal;
use sys::ring::{DEFAULT_CAPACITY, Down, PeerFault};
use tracing::{debug, warn};

use super::{LINK, Notice, Worker};
use crate::check::{Allowed, check};
use crate::control::AppId;
use crate::link::{Attached, Link};
use crate::policy::Policy;

/// Messages taken from one app per turn, so that a talkative app delays nobody else.
const TAKES: usize = 4096;

impl Worker {
    /// Takes what apps said, checks it, and gathers it per switch.
    pub(super) fn hear_apps(&mut self, now: Instant) {
        for index in 0..self.links.len() {
            if let Err(fault) = self.hear(index, TAKES, now) {
                self.fault(index, fault);
            }
        }
    }

    fn hear(&mut self, index: usize, takes: usize, now: Instant) -> Result<(), PeerFault> {
        let mut copy = std::mem::take(&mut self.scratch);
        let mut result = Ok(());
        for _ in 0..takes {
            match self.links[index].take(&mut copy) {
                Ok(Some(Down::Send { epoch, dpid, .. })) => {
                    if let Err(why) = self.send(dpid, epoch, &copy) {
                        self.refuse(index, dpid, epoch, why, &copy, now);
                    }
                }
                // With one app there is nobody behind it to keep a record from.
                Ok(Some(Down::Stop(_) | Down::Done(_))) => {}
                Ok(None) => break,
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        self.links[index].release();
        self.scratch = copy;
        result
    }

    /// Checks a message of an app and appends it to what goes to its switch.
    fn send(&mut self, dpid: u64, epoch: u32, message: &[u8]) -> Result<(), Refusal> {
        let key = *self.by_dpid.get(&dpid).ok_or(Refusal::NoSwitch)?;
        let connection = &mut self.connections[key];
        let full = connection.is_full();
        let switch = connection.switch.as_mut().ok_or(Refusal::NoSwitch)?;
        if switch.epoch != epoch {
            return Err(Refusal::Epoch);
        }
        let allowed = check(switch.info.version, message)?;
        if full {
            return Err(Refusal::Full);
        }
        match allowed {
            Allowed::FlowMod => switch.counters.flow_mods += 1,
            Allowed::PacketOut => switch.counters.packet_outs += 1,
        }
        let start = connection.out.len();
        connection.out.extend_from_slice(message);
        // Transaction ids are the kernel's: two apps may choose the same.
        let xid = connection.session.xid();
        connection.out[start + 4..start + 8].copy_from_slice(&xid.to_be_bytes());
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        index: usize,
        dpid: u64,
        epoch: u32,
        why: Refusal,
        message: &[u8],
        now: Instant,
    ) {
        let switch = self.by_dpid.get(&dpid).and_then(|key| self.connections.get_mut(*key));
        if let Some(switch) = switch.and_then(|connection| connection.switch.as_mut()) {
            switch.counters.refused += 1;
        }
        let link = &mut self.links[index];
        link.refused(dpid, epoch, why, message);
        if let Some(suppressed) = self.rates.refused.admit(now) {
            let (app, dpid) = (&link.name, openflow::Dpid(dpid));
            warn!(app, %dpid, epoch, %why, suppressed, "refused a message of an app");
        }
    }

    /// An app's zone lied: nothing more is taken from it, and the monitor ends it.
    pub(super) fn fault(&mut self, index: usize, fault: PeerFault) {
        let link = &self.links[index];
        warn!(app = link.name, %fault, "the app's zone broke the ring's contract");
        self.notify(Notice::Fault { app: link.app, fault: fault.to_string() });
        self.cut_off(index);
    }

    /// Forgets an app's rings; what it had not done waits for its next zone.
    fn cut_off(&mut self, index: usize) {
        let link = &mut self.links[index];
        // Fails only for a doorbell that is not in the set; this one is.
        let _ = epoll::delete(&self.epoll, &link.down_bell);
        let app = link.app;
        if let Some(record) = link.detach() {
            self.notify(Notice::SetAside { app, record });
        }
    }

    /// Goes on with snapshots and replays, and shows the zones what was written.
    pub(super) fn pump(&mut self) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.has_work() {
                let by_dpid = &self.by_dpid;
                let epochs = &self.epochs;
                let switches = self.connections.iter_mut();
                link.pump(
                    switches.filter_map(|(_, connection)| connection.switch.as_mut()),
                    |dpid, epoch| by_dpid.contains_key(&dpid) && epochs.get(&dpid) == Some(&epoch),
                );
            }
            link.publish();
        }
    }

    /// Makes rings for an app.
    pub(super) fn attach(
        &mut self,
        app: AppId,
        name: String,
        policy: Policy,
        now: Instant,
    ) -> io::Result<()> {
        self.detach(app, now);
        let known = self.links.iter().position(|link| link.app == app);
        let index = known.unwrap_or(self.links.len());
        if known.is_none() {
            self.links.push(Link::new(app, name, index, DEFAULT_CAPACITY)?);
        }
        self.links[index].policy = policy;
        let link = &mut self.links[index];
        let Attached { fds, up_bell, down_bell } = link.attach()?;
        let data = EventData::new_u64(LINK | index as u64);
        epoll::add(&self.epoll, &link.down_bell, data, EventFlags::IN)?;
        let fds = vec![fds.up, fds.down, up_bell.into_fd(), down_bell.into_fd()];
        self.notify(Notice::Attached { app, capacity: DEFAULT_CAPACITY, fds });
        Ok(())
    }

    /// The app's zone is dead.
    pub(super) fn detach(&mut self, app: AppId, now: Instant) {
        let Some(index) = self.links.iter().position(|link| link.app == app) else { return };
        if !self.links[index].is_attached() {
            return;
        }
        // All that it published before it died has happened.
        if let Err(fault) = self.hear(index, usize::MAX, now) {
            debug!(%fault, "the dead zone's ring was broken");
        }
        self.cut_off(index);
    }
}
