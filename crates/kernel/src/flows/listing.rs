//! Formats the flows of a switch for an operator: multipart replies become pages of text.
//!
//! This runs on the server thread. The replies are kept as the switch sent them; the transaction table bounds their
//! size. One at a time becomes text, when the operator requests a page.

use std::collections::{HashMap, VecDeque};

use openflow::{Available as _, DecodeError, FlowStats, MultipartReply, ReplyBody};

use crate::answer_part::Part;
use crate::check::OWN_BITS;
use crate::rewrite::{KERNEL, owner};
use control::app::AppId;
use control::query::{FlowStatus, KernelQueryReply, MAX_TEXT};

/// Approximate size of a page in bytes: with one more flow it still fits into a message, even if every letter needs two
/// bytes there.
const PAGE_SIZE: usize = 40 * 1024;

/// Approximate size of a flow without its texts, in bytes.
const FLOW_SIZE: usize = 300;

/// The names of the apps, by their numbers.
pub(crate) type Names = HashMap<AppId, String>;

/// The answer to an operator's question.
#[derive(Debug)]
pub(crate) struct Flows {
    /// Which question.
    question: u64,
    /// Number of workers that may have the switch.
    may_know: usize,
    parts: VecDeque<Vec<u8>>,
    complete: bool,
    ready: VecDeque<FlowStatus>,
}

impl Flows {
    /// An empty answer to a question that `workers` workers received.
    pub(crate) fn new(question: u64, workers: usize) -> Self {
        Self {
            question,
            may_know: workers,
            parts: VecDeque::new(),
            complete: false,
            ready: VecDeque::new(),
        }
    }

    /// Whether these are the flows for this question.
    pub(crate) fn is_about(&self, question: u64) -> bool {
        self.question == question
    }

    /// Whether all parts have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Adds a part from a worker. Returns the first reply to the operator once it is known.
    pub(crate) fn take(&mut self, part: Part, names: &Names) -> Option<KernelQueryReply> {
        match part {
            Part::NoSwitch => {
                self.may_know = self.may_know.saturating_sub(1);
                (self.may_know == 0).then_some(KernelQueryReply::NoSwitch)
            }
            Part::Of { message, last } => {
                self.parts.push_back(message);
                self.complete = last;
                last.then(|| self.page(names))
            }
            Part::Failed(why) => Some(KernelQueryReply::Failed { why }),
            Part::Known(_) => None, // it is not sent for flows
        }
    }

    /// Returns the next page.
    pub(crate) fn page(&mut self, names: &Names) -> KernelQueryReply {
        let (mut flows, mut size) = (Vec::new(), 0);
        while size < PAGE_SIZE {
            while self.ready.is_empty() {
                let Some(part) = self.parts.pop_front() else {
                    return KernelQueryReply::Flows { flows, more: false };
                };
                match status(&part, names) {
                    Ok(flows) => self.ready = flows,
                    Err(error) => {
                        let why = format!("the switch's answer is malformed: {error}");
                        return KernelQueryReply::Failed { why };
                    }
                }
            }
            if let Some(flow) = self.ready.pop_front() {
                size += FLOW_SIZE + flow.match_.len() + flow.actions.len();
                flows.push(flow);
            }
        }
        KernelQueryReply::Flows { flows, more: !(self.ready.is_empty() && self.parts.is_empty()) }
    }
}

/// Formats the flows of a multipart reply.
fn status(message: &[u8], names: &Names) -> Result<VecDeque<FlowStatus>, DecodeError> {
    match MultipartReply::decode(message)?.body {
        ReplyBody::Flow(flows) => Ok(flows.iter().map(|flow| of(flow, names)).collect()),
        _ => Ok(VecDeque::new()), // the transaction table has checked the type
    }
}

fn of(flow: &FlowStats<'_>, names: &Names) -> FlowStatus {
    let owner = owner(flow.cookie);
    let (app, cookie) = match names.get(&owner) {
        Some(name) => (name.clone(), flow.cookie & OWN_BITS),
        None if owner == KERNEL => ("kernel".to_owned(), flow.cookie & OWN_BITS),
        None => ("other".to_owned(), flow.cookie),
    };
    FlowStatus {
        table: flow.table_id,
        priority: flow.priority,
        owner: app,
        cookie: format!("{cookie:#x}"),
        match_: cut(flow.match_.to_string()),
        actions: cut(flow.instructions.to_string()),
        packets: flow.packet_count.available(),
        bytes: flow.byte_count.available(),
        duration_ms: u64::try_from(flow.duration.as_millis()).unwrap_or(u64::MAX),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
    }
}

/// Cuts a text to a size that fits into a page.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rfind(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use openflow::{Action, FlowModFlags, Instructions, Match, PortNo, Version};
    use sys::channel::Channel;

    use super::*;

    fn flow(cookie: u64, actions: &[Action]) -> FlowStats<'_> {
        FlowStats {
            table_id: 0,
            duration: std::time::Duration::from_millis(1500),
            priority: 100,
            idle_timeout: 60,
            hard_timeout: 0,
            importance: 0,
            flags: FlowModFlags::default(),
            cookie,
            packet_count: 3,
            byte_count: u64::MAX,
            match_: Match::new().in_port(PortNo(1)),
            instructions: Instructions { apply: actions.into(), ..Instructions::default() },
        }
    }

    fn part(version: Version, cookies: &[u64], actions: &[Action], last: bool) -> Part {
        let flows = cookies.iter().map(|cookie| flow(*cookie, actions)).collect();
        let reply = MultipartReply { more: !last, body: ReplyBody::Flow(flows) };
        let mut message = Vec::new();
        openflow::append(&mut message, |out| reply.encode(version, 1, out)).unwrap();
        Part::Of { message, last }
    }

    fn names() -> Names {
        Names::from([(AppId(1), "learning-switch".to_owned())])
    }

    #[test]
    fn flow_is_formatted_with_its_owner() {
        let out = [Action::output(PortNo(2))];
        for version in Version::ALL.iter().copied() {
            let mut flows = Flows::new(1, 1);
            let own = 1 << 48 | 5;
            let other = 2 << 48 | 5;
            let kernel = u64::from(KERNEL.0) << 48;
            assert_eq!(flows.take(part(version, &[own], &out, false), &names()), None);
            let last = part(version, &[other, 7, kernel], &[], true);
            let Some(KernelQueryReply::Flows { flows, more: false }) = flows.take(last, &names())
            else {
                panic!("whole")
            };
            let whose: Vec<_> =
                flows.iter().map(|flow| (flow.owner.as_str(), flow.cookie.as_str())).collect();
            let other = "0x2000000000005";
            assert_eq!(
                whose,
                [("learning-switch", "0x5"), ("other", other), ("other", "0x7"), ("kernel", "0x0")]
            );
            assert_eq!(
                (flows[0].match_.as_str(), flows[0].actions.as_str()),
                ("in_port=1", "output:2")
            );
            assert_eq!(flows[1].actions, "drop");
            assert_eq!((flows[0].packets, flows[0].bytes), (Some(3), None));
            assert_eq!((flows[0].duration_ms, flows[0].idle_timeout), (1500, 60));
        }
    }

    #[test]
    fn pages_fit_into_messages() {
        let mut flows = Flows::new(1, 1);
        let data: Box<[u8]> = vec![7; 50_000].into();
        let long = [Action::Experimenter { experimenter: 0x2320, data }];
        flows.take(part(Version::V1_3, &[1], &long, false), &names());
        let cookies: Vec<u64> = (2..=500).collect();
        let mut reply = None;
        for chunk in cookies.chunks(100) {
            let last = chunk.contains(&500);
            reply = reply.or(flows.take(part(Version::V1_3, chunk, &[], last), &names()));
        }
        let (here, there) = Channel::passing_pair().unwrap();
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let page = reply.take().unwrap_or_else(|| flows.page(&names()));
            here.send(&page, &[]).expect("it fits");
            assert_eq!(there.receive::<KernelQueryReply>().unwrap().0, page);
            let KernelQueryReply::Flows { flows: page, more } = page else { panic!("a page") };
            seen.extend(page.iter().map(|flow| flow.cookie.clone()));
            pages += 1;
            if !more {
                break;
            }
        }
        assert!(pages > 1);
        assert!(seen.into_iter().eq((1..=500).map(|cookie: u64| format!("{cookie:#x}"))));
    }

    #[test]
    fn switch_is_unknown_if_no_worker_has_it() {
        let mut flows = Flows::new(1, 2);
        assert_eq!(flows.take(Part::NoSwitch, &names()), None);
        assert_eq!(flows.take(Part::NoSwitch, &names()), Some(KernelQueryReply::NoSwitch));
    }

    #[test]
    fn malformed_reply_is_reported() {
        let mut flows = Flows::new(1, 1);
        let message = vec![4, 19, 0, 18, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let Some(KernelQueryReply::Failed { why }) =
            flows.take(Part::Of { message, last: true }, &names())
        else {
            panic!("it was malformed")
        };
        assert!(why.contains("malformed: "), "{why}");
        let failed = Part::Failed("the switch does not answer".into());
        assert!(matches!(flows.take(failed, &names()), Some(KernelQueryReply::Failed { .. })));
    }
}
