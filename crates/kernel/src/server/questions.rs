//! Answers the questions of operators: queries every worker, and merges the answers.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use sys::channel::{Channel, ChannelError};

use super::workers::Workers;
use crate::answer_part::Part;
use crate::details::DetailAnswer;
use crate::flows::entries::Entries;
use crate::flows::listing::{Flows, Names};
use crate::worker::{Command, Subject};
use control::app::AppId;
use control::query::{
    AppCounters, EntryPart, KernelQuery, KernelQueryReply, Orphans, PAGE, SENDERS, SwitchSender,
    SwitchStatus,
};

/// How long workers may take to answer an operator.
const PATIENCE: Duration = Duration::from_secs(1);

/// The answer to a question about a switch.
#[derive(Debug)]
enum Answer {
    Flows(Flows),
    Details(DetailAnswer),
    Entries(Entries),
}

/// An operator, whom the monitor has authenticated.
#[derive(Debug)]
pub(super) struct Operator {
    channel: Channel,
    /// The answer that is not sent yet, or whose later pages are not.
    answer: Option<Answer>,
}

impl Operator {
    /// An operator without questions.
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, answer: None }
    }

    /// Answers a question. `false` if the operator must be forgotten.
    pub(super) fn serve(&mut self, workers: &Workers, names: &Names, questions: &mut u64) -> bool {
        match self.channel.receive_alone() {
            Ok(KernelQuery::Switches { after }) => {
                let Some((switches, more)) = switches(workers, after) else { return false };
                self.reply(&KernelQueryReply::Switches { switches, more })
            }
            Ok(KernelQuery::Senders { after }) => {
                let senders = query(workers, |reply| Command::Senders { after, reply });
                let Some((senders, more)) = senders.map(senders_page) else { return false };
                self.reply(&KernelQueryReply::Senders { senders, more })
            }
            Ok(KernelQuery::Apps) => {
                let Some(apps) = apps(workers) else { return false };
                self.reply(&KernelQueryReply::Apps(apps))
            }
            Ok(KernelQuery::ReadOrphans { dpid, remove }) => {
                let read = |reply| Command::ReadOrphans { dpid, remove, reply };
                let Some(known) = query(workers, read) else { return false };
                if known.contains(&true) {
                    self.reply(&KernelQueryReply::ReadingOrphans)
                } else {
                    self.reply(&KernelQueryReply::NoSwitch)
                }
            }
            Ok(KernelQuery::Orphans { dpid, skip }) => {
                let read = |reply| Command::Orphans { dpid, reply };
                let Some(orphans) = query(workers, read) else { return false };
                let (orphans, more) = orphans_page(orphans, skip, names);
                self.reply(&KernelQueryReply::Orphans { orphans, more })
            }
            Ok(KernelQuery::Flows { dpid }) => {
                *questions += 1;
                let question = *questions;
                self.answer = Some(Answer::Flows(Flows::new(question, workers.count())));
                let subject = Subject::Flows;
                workers.command(|| Command::Flows { dpid, question, subject });
                true
            }
            Ok(KernelQuery::Details { dpid, part }) => {
                *questions += 1;
                let question = *questions;
                let answer = DetailAnswer::new(question, part, workers.count());
                self.answer = Some(Answer::Details(answer));
                let subject = Subject::Details(part);
                workers.command(|| Command::Flows { dpid, question, subject });
                true
            }
            Ok(KernelQuery::Entries { dpid, part }) => {
                *questions += 1;
                let question = *questions;
                self.answer = Some(Answer::Entries(Entries::new(question, workers.count())));
                let subject = match part {
                    EntryPart::Flows => Subject::Flows,
                    EntryPart::Groups => Subject::Groups,
                    EntryPart::Meters => Subject::Meters,
                    EntryPart::TableFeatures => Subject::TableFeatures,
                };
                workers.command(|| Command::Flows { dpid, question, subject });
                true
            }
            Ok(
                query @ (KernelQuery::MoreFlows
                | KernelQuery::MoreDetails
                | KernelQuery::MoreEntries),
            ) => {
                let page = match (&mut self.answer, query) {
                    (Some(Answer::Flows(flows)), KernelQuery::MoreFlows) if flows.is_complete() => {
                        flows.page(names)
                    }
                    (Some(Answer::Details(details)), KernelQuery::MoreDetails)
                        if details.is_complete() =>
                    {
                        details.page()
                    }
                    (Some(Answer::Entries(entries)), KernelQuery::MoreEntries)
                        if entries.is_complete() =>
                    {
                        entries.page()
                    }
                    _ => return false, // the previous page was the last
                };
                self.reply(&page)
            }
            Err(ChannelError::WouldBlock) => true,
            Err(_) => false,
        }
    }

    /// Whether the operator waits for the answer to this question.
    pub(super) fn waits_for(&self, question: u64) -> bool {
        match &self.answer {
            Some(Answer::Flows(flows)) => flows.is_about(question),
            Some(Answer::Details(details)) => details.is_about(question),
            Some(Answer::Entries(entries)) => entries.is_about(question),
            None => false,
        }
    }

    /// Takes a worker's part of the answer.
    pub(super) fn take(&mut self, part: Part, names: &Names) {
        let reply = match &mut self.answer {
            Some(Answer::Flows(flows)) => flows.take(part, names),
            Some(Answer::Details(details)) => details.take(part),
            Some(Answer::Entries(entries)) => entries.take(part, names),
            None => None,
        };
        if let Some(reply) = reply {
            self.reply(&reply); // a failure is noticed when the next question is received
        }
    }

    /// Sends an answer; `false` if that fails.
    fn reply(&mut self, reply: &KernelQueryReply) -> bool {
        if matches!(
            reply,
            KernelQueryReply::Flows { more: false, .. }
                | KernelQueryReply::Details { more: false, .. }
                | KernelQueryReply::Entries { more: false, .. }
                | KernelQueryReply::NoSwitch
                | KernelQueryReply::Failed { .. }
        ) {
            self.answer = None;
        }
        self.channel.send(reply, &[]).is_ok()
    }
}

impl AsFd for Operator {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Returns a page of the switches with a greater datapath id, and whether there are more. `None` if a worker did not
/// answer.
fn switches(workers: &Workers, after: Option<u64>) -> Option<(Vec<SwitchStatus>, bool)> {
    query(workers, |reply| Command::Switches { after, reply }).map(merge)
}

/// Returns the counters of all apps. `None` if a worker did not answer.
fn apps(workers: &Workers) -> Option<Vec<AppCounters>> {
    query(workers, |reply| Command::Apps { reply }).map(add_up)
}

/// Queries each worker; `None` if one did not answer in time.
fn query<T>(workers: &Workers, question: impl Fn(Sender<T>) -> Command) -> Option<Vec<T>> {
    let (reply, answers) = channel();
    workers.command(|| question(reply.clone()));
    let give_up = Instant::now() + PATIENCE;
    let answer = |_| {
        let rest = give_up.saturating_duration_since(Instant::now());
        answers.recv_timeout(rest).ok()
    };
    (0..workers.count()).map(answer).collect()
}

/// Merges a page of each worker into one page.
fn merge(pages: Vec<(Vec<SwitchStatus>, bool)>) -> (Vec<SwitchStatus>, bool) {
    let mut more = pages.iter().any(|(_, more)| *more);
    let mut all: Vec<_> = pages.into_iter().flat_map(|(switches, _)| switches).collect();
    // Datapath ids have the same order as numbers and as text. So all switches that this function or a worker cuts off
    // belong on a later page.
    all.sort_unstable_by(|one, other| one.dpid.cmp(&other.dpid));
    more |= all.len() > PAGE;
    all.truncate(PAGE);
    (all, more)
}

/// Merges the pages of the workers into one page of whole switches, and returns whether there are more.
fn senders_page(pages: Vec<Vec<SwitchSender>>) -> (Vec<SwitchSender>, bool) {
    let mut more = pages.iter().any(|page| page.len() > SENDERS);
    let mut all: Vec<SwitchSender> = pages.into_iter().flatten().collect();
    all.sort_unstable_by_key(|it| (it.dpid, it.app));
    // A worker that has cut off switches has more than SENDERS pairs before these, so they belong on a later page.
    let last = all.get(SENDERS).map(|it| it.dpid);
    let end = all.iter().position(|it| last.is_some_and(|last| it.dpid > last));
    more |= end.is_some();
    all.truncate(end.unwrap_or(all.len()));
    (all, more)
}

/// Merges what each worker found into one page that begins after `skip` entries, and adds the names.
fn orphans_page(found: Vec<Orphans>, skip: usize, names: &Names) -> (Orphans, bool) {
    let mut all = Orphans::default();
    for one in found {
        all.found.extend(one.found);
        all.awaited += one.awaited;
        all.failed += one.failed;
    }
    all.found.sort_unstable_by(|one, other| (&one.dpid, one.app).cmp(&(&other.dpid, other.app)));
    all.found.drain(..skip.min(all.found.len()));
    let more = all.found.len() > PAGE;
    all.found.truncate(PAGE);
    for orphan in &mut all.found {
        let name = names.get(&orphan.app).cloned().unwrap_or_default();
        orphan.owner = if orphan.app == AppId::OTHER { "other".into() } else { name };
    }
    (all, more)
}

/// Adds up the workers' counters of each app.
fn add_up(counts: Vec<Vec<AppCounters>>) -> Vec<AppCounters> {
    let mut all: Vec<AppCounters> = Vec::new();
    for one in counts.into_iter().flatten() {
        match all.iter_mut().find(|app| app.name == one.name) {
            Some(app) => add(app, &one),
            None => all.push(one),
        }
    }
    all
}

/// Adds another worker's counters of the same app.
fn add(app: &mut AppCounters, other: &AppCounters) {
    // Without `..`, so that a counter that is added later cannot be forgotten here.
    let AppCounters {
        name: _,
        delivered,
        dropped,
        refused,
        lost,
        flow_mods,
        packet_outs,
        requests,
        queued,
        skipped,
        passed_over,
        handled,
        waiting,
        slowed,
        unsent,
        delayed,
        paced,
        latencies,
    } = *other;
    app.delivered += delivered;
    app.dropped += dropped;
    app.refused += refused;
    app.lost += lost;
    app.flow_mods += flow_mods;
    app.packet_outs += packet_outs;
    app.requests += requests;
    app.queued = app.queued.max(queued);
    app.skipped |= skipped;
    app.passed_over += passed_over;
    app.handled += handled;
    app.waiting += waiting;
    app.slowed += slowed;
    app.unsent += unsent;
    app.delayed += delayed;
    app.paced += paced;
    for (count, other) in app.latencies.counts.iter_mut().zip(latencies.counts) {
        *count += other;
    }
    app.latencies.sum_us = app.latencies.sum_us.saturating_add(latencies.sum_us);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use control::app::AppId;
    use dal::SwitchInfo;
    use openflow::{Dpid, Version};

    use super::*;
    use crate::switch::Switch;

    fn switch(dpid: u64) -> SwitchStatus {
        let (version, dpid) = (Version::V1_3, Dpid(dpid));
        let info = SwitchInfo {
            version,
            dpid,
            n_tables: 1,
            n_buffers: 0,
            capabilities: openflow::Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        Switch::new(info, 1).status(
            (Ipv4Addr::LOCALHOST, 6653).into(),
            "tcp",
            (None, Vec::new()),
            0,
        )
    }

    /// The page of a worker with these switches.
    fn page(dpids: &[u64], after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let left = dpids.iter().filter(|dpid| after.is_none_or(|after| **dpid > after));
        let left: Vec<_> = left.copied().map(switch).collect();
        (left.iter().take(PAGE).cloned().collect(), left.len() > PAGE)
    }

    #[test]
    fn pages_of_workers_are_merged_in_order() {
        let count = 3 * PAGE as u64;
        let (few, many): (Vec<u64>, Vec<u64>) = (0..count).partition(|dpid| dpid % 5 == 0);
        let (mut after, mut seen, mut pages) = (None, Vec::new(), 0);
        loop {
            let (switches, more) = merge(vec![page(&few, after), page(&many, after)]);
            seen.extend(switches.into_iter().map(|switch| switch.dpid));
            pages += 1;
            if !more {
                break;
            }
            after = seen
                .last()
                .map(|dpid| u64::from_str_radix(&dpid.replace(':', ""), 16).expect("a DPID"));
        }
        let all: Vec<String> = (0..count).map(|dpid| Dpid(dpid).to_string()).collect();
        assert_eq!((seen, pages), (all, 3));
    }

    #[test]
    fn senders_of_workers_are_paged_by_whole_switches() {
        let of = |dpid: u64, after: Option<u64>| {
            let app =
                move |number| SwitchSender { dpid, epoch: 1, app: AppId(number), flow_mods: dpid };
            (1..=7).map(app).filter(move |it| after.is_none_or(|after| it.dpid > after))
        };
        let worker = |me: u64, after| -> Vec<SwitchSender> {
            let mut all = Vec::new();
            for dpid in (0..900).filter(|dpid| dpid % 3 % 2 == me) {
                if all.len() > SENDERS {
                    break;
                }
                all.extend(of(dpid, after));
            }
            all
        };
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let (page, more) = senders_page(vec![worker(0, after), worker(1, after)]);
            assert!(page.len() <= 2 * SENDERS);
            after = page.last().map(|it| it.dpid);
            seen.extend(page);
            if !more {
                break;
            }
        }
        let all: Vec<SwitchSender> = (0..900).flat_map(|dpid| of(dpid, None)).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn counters_of_workers_are_added_up_by_app() {
        let of = |name: &str, delivered, dropped, refused| AppCounters {
            name: name.into(),
            delivered,
            dropped,
            refused,
            queued: delivered,
            handled: delivered,
            waiting: dropped,
            ..AppCounters::default()
        };
        let all = add_up(vec![vec![of("a", 1, 2, 3), of("b", 4, 5, 6)], vec![of("a", 10, 20, 30)]]);
        assert_eq!(all, [AppCounters { queued: 10, ..of("a", 11, 22, 33) }, of("b", 4, 5, 6)]);
        assert_eq!(add_up(vec![Vec::new(), Vec::new()]), []);
    }
}
