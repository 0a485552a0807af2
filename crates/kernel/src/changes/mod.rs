//! Applies the change sets of apps to one switch: decides which messages are sent when, and what the result of each set is.
//!
//! Sets are applied one after the other, so a switch has at most one open bundle, whose number no app chooses. A step is sent
//! when the switch has answered the step before:
//!
//! ```text
//! bundles:           open* > before > open, add ..., close > commit > after
//! without bundles:   additions, barrier > other changes, barrier
//! ```
//!
//! The first set of a connection opens its bundle alone (`*`): a switch without bundles refuses that. The close request asks
//! whether the switch has taken every message, because a commit would apply the messages that it took. Changes that the switch
//! takes in no bundle are sent before it, and deletions after it.
//!
//! An error about a message of the set leads to its index. The set is then discarded, and additions of groups and meters are
//! undone. The machine has no I/O and no clock.
//!
//! OpenFlow 1.4.1 §6.8 and §7.3.9, and EXT-230 of the ONF for OpenFlow 1.3.

mod output;
mod set;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use openflow::{BundleCommand, BundleControl, BundleFailed, EncodeError, ErrorMessage, Kind};

use crate::check::Sweep;
use crate::ids::AppSlot;
use crate::transactions::Sender;

pub(crate) use self::output::Output;
pub(crate) use self::set::ChangeSet;

use self::output::Appended;
use self::set::{Does, What};

/// Time in which a switch must answer a step, from the moment at which the whole step has left the queues of the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most sets of an app that wait for one switch, and most bytes of all sets that wait for it.
const MOST_SETS: usize = 4;
const MOST_BYTES: usize = 1 << 20;

/// The change sets for one switch.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    bundles: Bundles,
    /// The switch takes no group-mods in a bundle, and no meter-mods.
    groups_outside: bool,
    meters_outside: bool,
    /// The sets that are not finished, the oldest first.
    sets: VecDeque<ChangeSet>,
    /// The state of the first of them.
    progress: Option<Progress>,
    last_bundle: u32,
}

/// Whether the switch has bundles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Bundles {
    #[default]
    Untried,
    Present,
    Absent,
}

/// A finished set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The app, and the number that it gave the set.
    pub(crate) sender: Sender,
    /// Number of flows that the set adds.
    pub(crate) adds: u32,
    pub(crate) outcome: Outcome,
}

/// The result of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The switch has applied it in one step, except for `outside` changes.
    Atomic { outside: u32 },
    /// The switch has applied it change by change.
    Ordered,
    /// The switch has refused it, with this error message.
    Failed { index: Option<usize>, error: Vec<u8>, is_partial: bool },
    /// The switch has not answered.
    Unanswered { is_partial: bool },
}

/// The effects of messages that [`Changes::advance`] has appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Flows, groups or meters are deleted. A group or meter takes the flows along that use it.
    pub(crate) deletes: bool,
    /// The effect on the table-miss entry.
    pub(crate) sweeps: Option<Sweep>,
}

/// A step of a set. The numbers are indices of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Opens a bundle.
    Open,
    /// Sends the additions of a set without a bundle, or the changes before a bundle; and a barrier.
    Before(Vec<usize>),
    /// Sends changes into the bundle, which it opens if that is not done, and closes the bundle.
    Collect(Vec<usize>),
    /// Commits the bundle.
    Commit,
    /// Sends the other changes of a set without a bundle, or the deletions after a bundle; and a barrier.
    After(Vec<usize>),
}

/// The state of the set that is being applied.
#[derive(Debug, Default)]
struct Progress {
    /// The steps, in their order.
    steps: Vec<Step>,
    /// The transaction id of the first change of each step that was sent; of its request if the step has no changes.
    sent: Vec<u32>,
    /// The answer to the last step that was sent, while it is outstanding.
    waits: Option<Waits>,
    /// The first error of the switch.
    failure: Option<Failure>,
    /// How the wait for the last step ended without the expected answer.
    ended: Option<Ended>,
    /// The number of the open bundle.
    bundle: Option<u32>,
    /// Changes that may have taken effect, except for those of the bundle.
    effective: Vec<usize>,
    /// Number of changes outside of the bundle; `None` if there is no bundle.
    outside: Option<u32>,
}

/// The end of a wait without the expected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The switch has not answered in time.
    Overdue,
    /// The switch has refused the last message of the step.
    Refused,
}

/// An outstanding answer.
#[derive(Debug)]
struct Waits {
    /// The transaction id of the open request in front of the changes, if there is one.
    opens: Option<u32>,
    /// The transaction id of the last message, which the answer has.
    last: u32,
    expects: Expected,
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Barrier,
    Bundle(BundleCommand),
}

#[derive(Debug)]
struct Failure {
    index: Option<usize>,
    /// The error message, without the message that it is about.
    error: Vec<u8>,
    /// The reason in an error about a bundle; `None` in another error.
    of_bundle: Option<BundleFailed>,
    /// Another controller is the master of the switch.
    is_of_slave: bool,
}

impl Step {
    /// The changes of the step.
    fn changes(&self) -> &[usize] {
        match self {
            Self::Before(changes) | Self::Collect(changes) | Self::After(changes) => changes,
            Self::Open | Self::Commit => &[],
        }
    }
}

impl Progress {
    /// The step that was sent last.
    fn step(&self) -> Option<&Step> {
        self.steps.get(self.sent.len().checked_sub(1)?)
    }

    /// Whether the first error only shows what the switch does not take in bundles.
    fn shows_bundle_limit(&self) -> bool {
        let Some(failure) = &self.failure else { return false };
        match self.step() {
            Some(Step::Open) => failure.has_no_bundles(),
            Some(Step::Collect(_) | Step::Commit) => {
                failure.index.is_some()
                    && failure.of_bundle == Some(BundleFailed::MessageUnsupported)
            }
            Some(Step::Before(_) | Step::After(_)) | None => false,
        }
    }

    /// The change that was sent with this transaction id.
    fn change(&self, xid: u32) -> Option<usize> {
        let mut sent = self.sent.iter().zip(&self.steps);
        sent.find_map(|(first, step)| {
            step.changes().get(xid.wrapping_sub(*first) as usize).copied()
        })
    }
}

impl Changes {
    /// Whether another set of an app, of this size in bytes, may wait.
    pub(crate) fn has_room(&self, app: AppSlot, size: usize) -> bool {
        let own = self.sets.iter().filter(|set| set.sender.app == app).count();
        let bytes: usize = self.sets.iter().map(ChangeSet::size).sum();
        // The first set of each app always finds room.
        own == 0 || own < MOST_SETS && bytes + size <= MOST_BYTES
    }

    /// Appends a set, for which there [is room](Self::has_room).
    pub(crate) fn push(&mut self, set: ChangeSet) {
        self.sets.push_back(set);
    }

    /// The set that [`advance`](Self::advance) continues: its app, and the pace of the app. `None` if there is nothing to do.
    pub(crate) fn next(&self) -> Option<(AppSlot, Option<u32>)> {
        let set = self.sets.front()?;
        self.waits().is_none().then_some((set.sender.app, set.pace))
    }

    /// The apps whose sets are not finished.
    pub(crate) fn senders(&self) -> impl Iterator<Item = AppSlot> {
        self.sets.iter().map(|set| set.sender.app)
    }

    /// Whether no set waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.sets.is_empty()
    }

    /// Notes a reply of the switch. `false` if it is about something else.
    pub(crate) fn reply(&mut self, xid: u32, kind: Kind, message: &[u8]) -> bool {
        let Some(progress) = &mut self.progress else { return false };
        let Some(waits) = &progress.waits else { return false };
        let control = match kind {
            Kind::BarrierReply => None,
            Kind::BundleControl | Kind::Experimenter => BundleControl::decode(message).ok(),
            _ => return false,
        };
        if waits.opens == Some(xid) {
            return control.is_some();
        }
        let is_it = match waits.expects {
            Expected::Barrier => kind == Kind::BarrierReply,
            Expected::Bundle(command) => control
                .is_some_and(|it| it.command == command && Some(it.bundle_id) == progress.bundle),
        };
        let is_ours = waits.last == xid && is_it;
        if is_ours {
            progress.waits = None;
            if progress.step() == Some(&Step::Open) {
                self.bundles = Bundles::Present;
            }
        }
        is_ours
    }

    /// Notes an error of the switch. `false` if it is about something else.
    pub(crate) fn error(&mut self, xid: u32, error: &ErrorMessage<'_>) -> bool {
        let Some(progress) = &mut self.progress else { return false };
        let index = progress.change(xid);
        let waits = progress.waits.as_ref();
        let is_last = waits.is_some_and(|waits| waits.last == xid);
        let opens = waits.is_some_and(|waits| waits.opens == Some(xid));
        if index.is_none() && !is_last && !opens {
            return false;
        }
        progress.effective.retain(|effective| Some(*effective) != index);
        if is_last {
            (progress.waits, progress.ended) = (None, Some(Ended::Refused));
        }
        progress.failure.get_or_insert_with(|| Failure {
            index,
            error: without_message(error),
            of_bundle: BundleFailed::of(error),
            is_of_slave: error.is_of_slave(),
        });
        true
    }

    /// Whether the first error about the present set only shows what the switch does not take in bundles. The set is then tried
    /// again without that, so the error is no failure of an app.
    pub(crate) fn shows_bundle_limit(&self) -> bool {
        self.progress.as_ref().is_some_and(Progress::shows_bundle_limit)
    }

    /// Begins the wait for an answer again: the step still waits in a queue of the connection.
    pub(crate) fn postpone(&mut self, now: Instant) {
        if let Some(waits) = self.progress.as_mut().and_then(|it| it.waits.as_mut()) {
            waits.until = now + PATIENCE;
        }
    }

    /// The app whose set waits for an answer of the switch.
    pub(crate) fn waits(&self) -> Option<AppSlot> {
        let set = self.sets.front()?;
        self.progress.as_ref().filter(|it| it.waits.is_some()).map(|_| set.sender.app)
    }

    /// Ends the wait for an answer that is overdue.
    pub(crate) fn expire(&mut self, now: Instant) {
        if let Some(progress) = &mut self.progress
            && progress.waits.as_ref().is_some_and(|waits| now >= waits.until)
        {
            (progress.waits, progress.ended) = (None, Some(Ended::Overdue));
        }
    }

    /// Appends the messages of the first set that are due to the output, or ends the set. Returns the effects of these
    /// messages, and the finished set. The caller calls again while there is a [next](Self::next) set.
    pub(crate) fn advance<X: FnMut(u32) -> u32>(
        &mut self,
        output: &mut Output<'_, X>,
        now: Instant,
    ) -> (Effects, Option<Finished>) {
        let mut effects = Effects::default();
        while let Some(set) = self.sets.front() {
            let mut progress = match self.progress.take() {
                Some(progress) => progress,
                None => self.plan(set),
            };
            if progress.waits.is_some() {
                self.progress = Some(progress);
                break;
            }
            if progress.ended.is_some() || progress.failure.is_some() {
                match self.fail(progress, output) {
                    Some(outcome) => return (effects, self.finish(outcome)),
                    None => continue,
                }
            }
            if progress.sent.len() == progress.steps.len() {
                let outcome = progress
                    .outside
                    .map_or(Outcome::Ordered, |outside| Outcome::Atomic { outside });
                return (effects, self.finish(outcome));
            }
            if self.send(&mut progress, output, now).is_ok() {
                self.sets.front().into_iter().for_each(|set| effects.add(set, &progress));
                self.progress = Some(progress);
                break;
            }
            // The version has no bundles, or not this message in one.
            self.bundles = Bundles::Absent;
        }
        (effects, None)
    }

    /// Whether the switch takes a change in no bundle.
    fn is_outside(&self, what: What) -> bool {
        match what {
            What::Flow => false,
            What::Group => self.groups_outside,
            What::Meter => self.meters_outside,
        }
    }

    /// Plans the steps of a set.
    fn plan(&self, set: &ChangeSet) -> Progress {
        let all = 0..set.items.len();
        let (outside, inside): (Vec<usize>, Vec<usize>) =
            all.partition(|index| self.is_outside(set.items[*index].what));
        if self.bundles == Bundles::Absent || inside.is_empty() || !set.fits_bundle() {
            let (first, others) = set.make_before_break();
            let mut steps = vec![Step::Before(first), Step::After(others)];
            steps.retain(|step| !step.changes().is_empty());
            return Progress { steps, ..Progress::default() };
        }
        let count = u32::try_from(outside.len()).unwrap_or(u32::MAX);
        let is_deleted = |index: &usize| set.items[*index].does == Does::Delete;
        let (after, before) = outside.into_iter().partition(is_deleted);
        let mut steps = vec![
            Step::Open,
            Step::Before(before),
            Step::Collect(inside),
            Step::Commit,
            Step::After(after),
        ];
        steps.retain(|step| match step {
            Step::Open => self.bundles == Bundles::Untried,
            Step::Before(changes) | Step::After(changes) => !changes.is_empty(),
            Step::Collect(_) | Step::Commit => true,
        });
        Progress { steps, outside: Some(count), ..Progress::default() }
    }

    /// Sends the next step of the first set.
    ///
    /// # Errors
    /// The version does not have a message of the step. Nothing is appended.
    fn send<X: FnMut(u32) -> u32>(
        &mut self,
        progress: &mut Progress,
        output: &mut Output<'_, X>,
        now: Instant,
    ) -> Result<(), EncodeError> {
        let Some(set) = self.sets.front() else { return Ok(()) };
        let Some(step) = progress.steps.get(progress.sent.len()) else { return Ok(()) };
        let opens = progress.bundle.is_none() && matches!(step, Step::Open | Step::Collect(_));
        if opens {
            self.last_bundle = self.last_bundle.wrapping_add(1);
        }
        let bundle = progress.bundle.unwrap_or(self.last_bundle);
        let start = output.out.len();
        let appended = match step {
            Step::Open => output.control(bundle, BundleCommand::OpenRequest),
            Step::Commit => output.control(bundle, BundleCommand::CommitRequest),
            Step::Collect(changes) => output.collect(set, changes, (bundle, opens)),
            Step::Before(changes) | Step::After(changes) => output.plain(set, changes),
        };
        let appended = appended.inspect_err(|_| output.out.truncate(start))?;
        if opens {
            progress.bundle = Some(bundle);
        }
        if let Step::Before(changes) | Step::After(changes) = step {
            progress.effective.extend(changes);
        }
        progress.sent.push(appended.first);
        let Appended { opens, last, expects, .. } = appended;
        progress.waits = Some(Waits { opens, last, expects, until: now + PATIENCE });
        Ok(())
    }

    /// Ends the first set after an error or without an answer, with the outcome that this returns, or plans it again in another
    /// way.
    fn fail<X: FnMut(u32) -> u32>(
        &mut self,
        mut progress: Progress,
        output: &mut Output<'_, X>,
    ) -> Option<Outcome> {
        let set = self.sets.front()?;
        let Progress { bundle, ended, .. } = progress;
        let step = progress.step()?;
        let is_opening = *step == Step::Open;
        let is_after = matches!(step, Step::After(_));
        let is_overdue = ended == Some(Ended::Overdue);
        // A switch that has not refused the commit may have carried it out, also after an error about a message.
        let may_be_committed = *step == Step::Commit && ended != Some(Ended::Refused);
        let is_open = match step {
            Step::Before(_) | Step::Collect(_) => true,
            Step::Open => is_overdue,
            Step::Commit | Step::After(_) => false,
        };
        if let (Some(bundle), true) = (bundle, is_open) {
            // It was opened by a message of the same version.
            let _ = output.control(bundle, BundleCommand::DiscardRequest);
        }
        let shows_limit = progress.shows_bundle_limit();
        if is_opening && (is_overdue || shows_limit) {
            self.bundles = Bundles::Absent;
            return None;
        }
        let Some(failure) = progress.failure else {
            let is_partial = may_be_committed || !progress.effective.is_empty();
            return Some(Outcome::Unanswered { is_partial });
        };
        // Without the answer to a step, an addition may still fail, and what it names would be the app's earlier entry.
        if !is_after && !is_overdue && !may_be_committed {
            while let Some(index) = progress.effective.pop_if(|index| set.is_undone(*index)) {
                output.undo(set, index);
            }
        }
        if shows_limit && let Some(index) = failure.index {
            let what = set.items[index].what;
            self.learn_outside(what);
            return None;
        }
        let has_committed = is_after && progress.outside.is_some();
        let is_partial = has_committed || may_be_committed || !progress.effective.is_empty();
        let Failure { index, error, .. } = failure;
        Some(Outcome::Failed { index, error, is_partial })
    }

    /// Notes that the switch takes such changes in no bundle.
    fn learn_outside(&mut self, what: What) {
        match what {
            What::Group if !self.groups_outside => self.groups_outside = true,
            What::Meter if !self.meters_outside => self.meters_outside = true,
            _ => self.bundles = Bundles::Absent,
        }
    }

    /// Removes the first set.
    fn finish(&mut self, outcome: Outcome) -> Option<Finished> {
        let set = self.sets.pop_front()?;
        Some(Finished { sender: set.sender, adds: set.added_flows(), outcome })
    }
}

impl Failure {
    /// Whether a switch that refuses to open a bundle with this error has no bundles of the kernel's kind. Otherwise it refuses
    /// one now: it has too many, or another master.
    fn has_no_bundles(&self) -> bool {
        !self.is_of_slave && self.of_bundle != Some(BundleFailed::TooMany)
    }
}

impl Effects {
    /// Adds the effects of the step that was sent last.
    fn add(&mut self, set: &ChangeSet, progress: &Progress) {
        let takes_effect = |step: &&Step| match progress.step() {
            Some(Step::Commit) => matches!(step, Step::Collect(_)),
            Some(last @ (Step::Before(_) | Step::After(_))) => *step == last,
            Some(Step::Open | Step::Collect(_)) | None => false,
        };
        let Some(step) = progress.steps.iter().find(takes_effect) else { return };
        let changes = step.changes();
        for item in changes.iter().map(|index| &set.items[*index]) {
            self.deletes |= item.does == Does::Delete;
            if self.sweeps != Some(Sweep::Certain) {
                self.sweeps = item.sweeps.or(self.sweeps);
            }
        }
    }
}

/// Encodes an error without the message that it is about. The id of an experimenter stays: it defines the code.
fn without_message(error: &ErrorMessage<'_>) -> Vec<u8> {
    let is_experimenter = error.kind == ErrorMessage::EXPERIMENTER;
    let data = error.data.get(..4).filter(|_| is_experimenter).unwrap_or_default();
    let mut message = Vec::new();
    let encoded =
        openflow::append(&mut message, |out| ErrorMessage { data, ..*error }.encode(0, out));
    encoded.expect("it is shorter than the switch's");
    message
}

#[cfg(test)]
mod tests;
