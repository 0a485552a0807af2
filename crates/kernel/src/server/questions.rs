//! What operators ask: every worker answers for itself, and the answers are made into one.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::workers::Workers;
use crate::query::{AppCounters, PAGE, SwitchStatus};
use crate::worker::Command;

/// How long workers may take to answer an operator.
const PATIENCE: Duration = Duration::from_secs(1);

/// The switches with a greater DPID, a page of them, and whether there are more. `None` if some
/// worker did not answer.
pub(super) fn switches(workers: &Workers, after: Option<u64>) -> Option<(Vec<SwitchStatus>, bool)> {
    ask(workers, |reply| Command::Switches { after, reply }).map(merge)
}

/// What became of the packet-ins for all apps. `None` if some worker did not answer.
pub(super) fn apps(workers: &Workers) -> Option<Vec<AppCounters>> {
    ask(workers, |reply| Command::Apps { reply }).map(add_up)
}

/// The answer of each worker.
fn ask<T>(workers: &Workers, question: impl Fn(Sender<T>) -> Command) -> Option<Vec<T>> {
    let (reply, answers) = channel();
    workers.command(|| question(reply.clone()));
    let give_up = Instant::now() + PATIENCE;
    let answer = |_| {
        let rest = give_up.saturating_duration_since(Instant::now());
        answers.recv_timeout(rest).ok()
    };
    (0..workers.count()).map(answer).collect()
}

/// Makes one page of a page of each worker.
fn merge(pages: Vec<(Vec<SwitchStatus>, bool)>) -> (Vec<SwitchStatus>, bool) {
    let mut more = pages.iter().any(|(_, more)| *more);
    let mut all: Vec<_> = pages.into_iter().flat_map(|(switches, _)| switches).collect();
    // As numbers and as texts they have the same order. What is left out of this page, and what
    // a worker has left out, comes behind the page's end, so it is in the next.
    all.sort_unstable_by(|one, other| one.dpid.cmp(&other.dpid));
    more |= all.len() > PAGE;
    all.truncate(PAGE);
    (all, more)
}

/// Adds up what the workers counted for each app.
fn add_up(counts: Vec<Vec<AppCounters>>) -> Vec<AppCounters> {
    let mut all: Vec<AppCounters> = Vec::new();
    for one in counts.into_iter().flatten() {
        match all.iter_mut().find(|app| app.name == one.name) {
            Some(app) => {
                app.delivered += one.delivered;
                app.dropped += one.dropped;
                app.refused += one.refused;
            }
            None => all.push(one),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use dal::drivers::openflow::SwitchInfo;
    use openflow::{Dpid, Version};

    use super::*;
    use crate::switch::Switch;

    fn switch(dpid: u64) -> SwitchStatus {
        let (version, dpid) = (Version::V1_3, Dpid(dpid));
        let info = SwitchInfo { version, dpid, n_tables: 1, n_buffers: 0, ports: Vec::new() };
        Switch::new(info, 1).status((Ipv4Addr::LOCALHOST, 6653).into(), "tcp")
    }

    /// What a worker says that has these switches.
    fn page(dpids: &[u64], after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let left = dpids.iter().filter(|dpid| after.is_none_or(|after| **dpid > after));
        let left: Vec<_> = left.copied().map(switch).collect();
        (left.iter().take(PAGE).cloned().collect(), left.len() > PAGE)
    }

    #[test]
    fn pages_of_workers_make_pages_of_all_switches_in_order() {
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
    fn counts_of_workers_are_added_up_by_app() {
        let of = |name: &str, delivered, dropped, refused| AppCounters {
            name: name.into(),
            delivered,
            dropped,
            refused,
        };
        let all = add_up(vec![vec![of("a", 1, 2, 3), of("b", 4, 5, 6)], vec![of("a", 10, 20, 30)]]);
        assert_eq!(all, [of("a", 11, 22, 33), of("b", 4, 5, 6)]);
        assert_eq!(add_up(vec![Vec::new(), Vec::new()]), []);
    }
}
