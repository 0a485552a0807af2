//! Requests the flows of a switch for an operator. The parts of the answer go to the server thread unchanged, which
//! decodes them without delaying a switch.

use std::time::Instant;

use openflow::{FlowStatsRequest, Match, MultipartRequest};

use super::WorkerChannels;
use super::output::Output;
use super::roster::Entry;
use super::switches::Switches;
use crate::check::Expects;
use crate::connection::Up;
use crate::flows::Part;

/// Requests all flows of the switch `dpid`; [`WorkerEvent::Flows`](super::WorkerEvent::Flows) reports the answer.
pub(super) fn request_flows(
    (dpid, question): (u64, u64),
    switches: &mut Switches,
    output: &mut Output,
    channels: &WorkerChannels,
    now: Instant,
) {
    let Some(Entry { key, .. }) = switches.roster.get(dpid) else {
        return channels.flow_part(question, Part::NoSwitch);
    };
    let connection = &mut switches[key];
    if connection.is_full() {
        let why = "the switch does not read what is sent to it";
        return channels.flows_failed(question, why.into());
    }
    let Some(Up { switch, transactions, .. }) = connection.phase.up_mut() else {
        return channels.flow_part(question, Part::NoSwitch);
    };
    let (version, xid) = (switch.version, connection.session.xid());
    let all = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
    let mut request = Vec::new();
    openflow::append(&mut request, |out| all.encode(version, xid, out))
        .expect("every version has this request");
    let expects = Expects::multipart(&request).expect("it is one");
    if !transactions.begin_for_operator(xid, question, expects, now) {
        let why = "others are asking the same switch; try again in a moment";
        return channels.flows_failed(question, why.into());
    }
    connection.out.extend_from_slice(&request);
    output.note(key, connection);
}
