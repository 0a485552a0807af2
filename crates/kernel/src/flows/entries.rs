//! Collects the entries of a switch for an operator, in the form in which the switch reports them.
//!
//! This runs on the server thread, like [`listing`](crate::flows::listing). The transaction table bounds the size of the replies.

use std::collections::VecDeque;

use crate::answer_part::Part;
use crate::flows::listing::Names;
use control::query::KernelQueryReply;
use sys::text::hex;

/// Most bytes in a page. They are sent as twice as many digits, and the names of apps need room, too.
const PAGE_SIZE: usize = 40 * 1024;

/// The answer to an operator's question.
#[derive(Debug)]
pub(crate) struct Entries {
    question: u64,
    /// Number of workers that may have the switch.
    may_know: usize,
    bytes: VecDeque<u8>,
    is_complete: bool,
}

impl Entries {
    /// An empty answer to a question that `workers` workers received.
    pub(crate) fn new(question: u64, workers: usize) -> Self {
        Self { question, may_know: workers, bytes: VecDeque::new(), is_complete: false }
    }

    /// Whether this is the answer to this question.
    pub(crate) fn is_about(&self, question: u64) -> bool {
        self.question == question
    }

    /// Whether all parts have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Adds a part from a worker. Returns the first reply to the operator once it is known.
    pub(crate) fn take(&mut self, part: Part, names: &Names) -> Option<KernelQueryReply> {
        match part {
            Part::NoSwitch => {
                self.may_know = self.may_know.saturating_sub(1);
                (self.may_know == 0).then_some(KernelQueryReply::NoSwitch)
            }
            Part::Of { message, last } => {
                self.bytes.extend(message);
                self.is_complete = last;
                last.then(|| self.page_with(names))
            }
            Part::Failed(why) => Some(KernelQueryReply::Failed { why }),
            Part::Known(_) => None, // it is not sent for entries
        }
    }

    /// Returns the next page.
    pub(crate) fn page(&mut self) -> KernelQueryReply {
        self.page_with(&Names::new())
    }

    fn page_with(&mut self, names: &Names) -> KernelQueryReply {
        let page: Vec<u8> = self.bytes.drain(..PAGE_SIZE.min(self.bytes.len())).collect();
        let messages = hex(&page);
        let owners = names.iter().map(|(app, name)| (*app, name.clone())).collect();
        KernelQueryReply::Entries { messages, owners, more: !self.bytes.is_empty() }
    }
}

#[cfg(test)]
mod tests {
    use control::app::AppId;
    use sys::channel::Channel;

    use super::*;

    #[test]
    fn pages_fit_into_messages_and_hold_all() {
        let names: Names =
            (0..200).map(|app| (AppId(app), format!("an-app-with-a-long-name-{app}"))).collect();
        let mut entries = Entries::new(7, 1);
        assert!(entries.is_about(7) && !entries.is_complete());
        let message: Vec<u8> = (0..=255).cycle().take(60_000).collect();
        assert_eq!(entries.take(Part::Of { message: message.clone(), last: false }, &names), None);
        let last = Part::Of { message: message.clone(), last: true };
        let mut page = entries.take(last, &names).expect("it is complete");
        let (here, there) = Channel::passing_pair().unwrap();
        let (mut digits, mut owners_of_all) = (String::new(), Vec::new());
        loop {
            here.send(&page, &[]).expect("it fits");
            assert_eq!(there.receive::<KernelQueryReply>().unwrap().0, page);
            let KernelQueryReply::Entries { messages, owners, more } = page else { panic!() };
            digits.push_str(&messages);
            owners_of_all.extend(owners);
            if !more {
                break;
            }
            page = entries.page();
        }
        assert_eq!((digits.len(), owners_of_all.len()), (240_000, 200));
        assert!(
            digits.starts_with("000102") && digits.ends_with(&format!("{:02x}", message[59_999]))
        );
    }

    #[test]
    fn switch_is_unknown_if_no_worker_has_it() {
        let mut entries = Entries::new(1, 2);
        assert_eq!(entries.take(Part::NoSwitch, &Names::new()), None);
        assert_eq!(entries.take(Part::NoSwitch, &Names::new()), Some(KernelQueryReply::NoSwitch));
        let failed = Part::Failed("the switch does not answer".into());
        assert!(matches!(
            entries.take(failed, &Names::new()),
            Some(KernelQueryReply::Failed { .. })
        ));
    }
}
