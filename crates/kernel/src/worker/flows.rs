//! An operator's question about a switch's flows: asked of the switch, and its answer handed to
//! the server's thread part by part, as it is. What it means is worked out there, where no switch
//! waits.

use std::time::Instant;

use openflow::{FlowStatsRequest, Match, MultipartRequest};

use super::roster::Entry;
use super::{Worker, WorkerEvent};
use crate::check::Expects;
use crate::connection::Up;
use crate::flows::Part;
use crate::transactions::Answers;

impl Worker {
    /// Asks a switch for all its flows; what comes of it is told by [`WorkerEvent::Flows`].
    pub(super) fn ask_flows(&mut self, dpid: u64, question: u64, now: Instant) {
        let Some(Entry { key, .. }) = self.roster.get(dpid) else {
            return self.tell_part(question, Part::NoSwitch);
        };
        let connection = &mut self.connections[key.0];
        let full = connection.is_full();
        let Some(Up { switch, transactions, .. }) = connection.phase.up_mut() else {
            return self.tell_part(question, Part::NoSwitch);
        };
        let version = switch.version;
        let xid = connection.session.xid();
        let all = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
        let mut request = Vec::new();
        openflow::append(&mut request, |out| all.encode(version, xid, out))
            .expect("every version can say it");
        let expects = Expects::multipart(&request).expect("it is one");
        if full {
            return self.failed(question, "the switch does not read what is sent to it".into());
        }
        if !transactions.operator_asks(xid, question, expects, now) {
            let why = "others are asking the same switch; try again in a moment".into();
            return self.failed(question, why);
        }
        connection.out.extend_from_slice(&request);
        self.note_dirty(key);
    }

    /// A part of the answer has come.
    pub(super) fn part(&self, question: u64, answers: &Answers, message: &[u8]) {
        if answers.too_long {
            let why = "it has more flows than can be shown; ask the switch itself, as with \
                       `ovs-ofctl dump-flows BRIDGE`";
            return self.failed(question, why.to_owned());
        }
        self.tell_part(question, Part::Of { message: message.to_vec(), last: answers.last });
    }

    /// There will be no answer.
    pub(super) fn failed(&self, question: u64, why: String) {
        self.tell_part(question, Part::Failed(why));
    }

    fn tell_part(&self, question: u64, part: Part) {
        self.notify(WorkerEvent::Flows { question, part });
    }
}
