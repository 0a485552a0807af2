//! Carries out changes of groups and meters, which differ from flows in that a number names each: [`Numbered`].

use std::fmt::Display;

use rosemary_sdk::openflow::{GroupMod, GroupModCommand, MeterMod, MeterModCommand};
use rosemary_sdk::services::operator::Refused;
use rosemary_sdk::wanted::{At, WantError, Wanted};
use rosemary_sdk::{Dpid, Network, SendError, Switch, Xid};

use super::change::{Change, Declared, Undo, not_sent, not_wanted};
use super::record::{Entries, Record};
use super::{Owner, Refusal};

/// The command of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Add,
    Modify,
    Delete,
}

/// A group-mod or a meter-mod.
pub(super) trait Numbered: Sized + Display {
    /// Its kind in messages.
    const NAME: &'static str;
    /// The number that means all of them.
    const ALL: u32;

    fn number(&self) -> u32;
    fn command(&self) -> Command;

    /// The wanted ones of a switch.
    fn wanted(wanted: &Wanted, dpid: Dpid) -> Vec<Self>;
    /// Wants it, whatever its command is.
    fn want(self, wanted: &mut Wanted, at: At) -> Result<(), WantError>;
    /// No longer wants that of this number.
    fn drop_wanted(wanted: &mut Wanted, at: At, number: u32);
    /// Deletes it from a switch.
    fn send_delete(self, switch: Switch, network: &mut Network<'_>) -> Result<Xid, SendError>;

    /// Undoes the declaration of a new one.
    fn undo_new(number: u32) -> Undo;
    /// Undoes the declaration that replaced this one.
    fn undo_to(self) -> Undo;
}

impl Owner {
    /// Begins a change of a group or meter.
    pub(super) fn numbered<T: Numbered>(
        &mut self,
        dpid: Dpid,
        new: T,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        let number = new.number();
        let mut earlier = T::wanted(&self.wanted, dpid);
        earlier.retain(|it| it.number() == number || number == T::ALL);
        if new.command() == Command::Delete {
            return self.delete_numbered(dpid, earlier, network);
        }
        self.switch(dpid)?;
        let refused = |what: &str| (Refused::Switch, format!("{} {number} {what}", T::NAME));
        match (new.command(), earlier.is_empty()) {
            (Command::Add, false) => return Err(refused("exists; modify it")),
            (Command::Modify, true) => return Err(refused("does not exist; add it")),
            _ => {}
        }
        let verb = if new.command() == Command::Add { "add" } else { "modify" };
        let what = format!("{verb} {} {number} of {dpid}", T::NAME);
        let mut before = Entries::default();
        before.add(earlier.iter());
        let record = Record::of(what, before, Entries::one(&new));
        new.want(&mut self.wanted, At::One(dpid)).map_err(not_wanted)?;
        let undo = earlier.into_iter().next().map_or_else(|| T::undo_new(number), T::undo_to);
        let mut change = Change { record, ..Change::default() };
        change.declared.push(Declared { name: format!("{} {number}", T::NAME), undo });
        Ok(change)
    }

    fn delete_numbered<T: Numbered>(
        &mut self,
        dpid: Dpid,
        earlier: Vec<T>,
        network: &mut Network<'_>,
    ) -> Result<Change, Refusal> {
        let mut before = Entries::default();
        before.add(earlier.iter());
        let what = format!("delete {}s of {dpid}", T::NAME);
        let record = Record::of(what, before, Entries::default());
        let mut change = Change { record, ..Change::default() };
        if earlier.is_empty() {
            return self.switch(dpid).map(|_| change);
        }
        for old in earlier {
            let name = format!("{} {}", T::NAME, old.number());
            T::drop_wanted(&mut self.wanted, At::One(dpid), old.number());
            change.declared.push(Declared { name, undo: Undo::Nothing });
            if let Some(switch) = self.switches.get(&dpid) {
                change.sent.push(old.send_delete(*switch, network).map_err(not_sent)?);
            }
        }
        Ok(change)
    }
}

impl Numbered for GroupMod {
    const NAME: &'static str = "group";
    const ALL: u32 = Self::ALL_GROUPS;

    fn number(&self) -> u32 {
        self.group_id
    }

    fn command(&self) -> Command {
        match self.command {
            GroupModCommand::Add => Command::Add,
            // A change states the whole group; no request inserts or removes buckets.
            GroupModCommand::Modify
            | GroupModCommand::InsertBucket(_)
            | GroupModCommand::RemoveBucket(_) => Command::Modify,
            GroupModCommand::Delete => Command::Delete,
        }
    }

    fn wanted(wanted: &Wanted, dpid: Dpid) -> Vec<Self> {
        wanted.groups(dpid).collect()
    }

    fn want(self, wanted: &mut Wanted, at: At) -> Result<(), WantError> {
        wanted.group(at, &Self { command: GroupModCommand::Add, ..self }).map(drop)
    }

    fn drop_wanted(wanted: &mut Wanted, at: At, number: u32) {
        wanted.drop_group(at, number);
    }

    fn send_delete(self, switch: Switch, network: &mut Network<'_>) -> Result<Xid, SendError> {
        let delete = Self { command: GroupModCommand::Delete, buckets: Vec::new(), ..self };
        network.group_mod(switch, &delete)
    }

    fn undo_new(number: u32) -> Undo {
        Undo::NoGroup(number)
    }

    fn undo_to(self) -> Undo {
        Undo::Group(self)
    }
}

impl Numbered for MeterMod {
    const NAME: &'static str = "meter";
    const ALL: u32 = Self::ALL_METERS;

    fn number(&self) -> u32 {
        self.meter_id
    }

    fn command(&self) -> Command {
        match self.command {
            MeterModCommand::Add => Command::Add,
            MeterModCommand::Modify => Command::Modify,
            MeterModCommand::Delete => Command::Delete,
        }
    }

    fn wanted(wanted: &Wanted, dpid: Dpid) -> Vec<Self> {
        wanted.meters(dpid).collect()
    }

    fn want(self, wanted: &mut Wanted, at: At) -> Result<(), WantError> {
        wanted.meter(at, &Self { command: MeterModCommand::Add, ..self }).map(drop)
    }

    fn drop_wanted(wanted: &mut Wanted, at: At, number: u32) {
        wanted.drop_meter(at, number);
    }

    fn send_delete(self, switch: Switch, network: &mut Network<'_>) -> Result<Xid, SendError> {
        let delete = Self { command: MeterModCommand::Delete, bands: Vec::new(), ..self };
        network.meter_mod(switch, &delete)
    }

    fn undo_new(number: u32) -> Undo {
        Undo::NoMeter(number)
    }

    fn undo_to(self) -> Undo {
        Undo::Meter(self)
    }
}
