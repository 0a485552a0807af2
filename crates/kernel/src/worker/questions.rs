//! Sends the requests of operators to switches: for flows, and for the details of a switch.

use std::time::Instant;

use control::details::DetailPart;
use openflow::{FlowStatsRequest, Match, MeterMod, MultipartRequest, PortNo};

use super::WorkerChannels;
use super::output::Output;
use super::roster::RosterEntry;
use super::switches::Switches;
use crate::answer_part::{Known, Part};
use crate::check::Expects;
use crate::connection::Up;
use crate::flows::requests::Reason;
use crate::switch::Switch;

/// The subject of an operator's question about a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// All its flows.
    Flows,
    /// All its groups. Not in OpenFlow 1.0.
    Groups,
    /// All its meters. Not in OpenFlow 1.0.
    Meters,
    /// The features of its tables. Not in OpenFlow 1.0.
    TableFeatures,
    /// A part of its details.
    Details(DetailPart),
}

impl Subject {
    fn request(self) -> MultipartRequest<'static> {
        match self {
            Self::Flows => MultipartRequest::Flow(FlowStatsRequest::new(Match::new())),
            Self::Groups => MultipartRequest::GroupDesc,
            Self::Meters => MultipartRequest::MeterConfig(MeterMod::ALL_METERS),
            Self::TableFeatures => MultipartRequest::TableFeatures(<_>::default()),
            Self::Details(DetailPart::Description) => MultipartRequest::Desc,
            Self::Details(DetailPart::Tables) => MultipartRequest::Table,
            Self::Details(DetailPart::Ports) => MultipartRequest::PortStats(PortNo::ANY),
        }
    }

    /// Returns what the kernel knows about the subject itself.
    fn known(self, switch: &Switch) -> Option<Known> {
        let size = |(number, table): (&u8, &dal::Table)| Some((*number, table.max_entries?));
        match self {
            Self::Flows
            | Self::Groups
            | Self::Meters
            | Self::TableFeatures
            | Self::Details(DetailPart::Description) => None,
            Self::Details(DetailPart::Tables) => {
                let table_sizes = switch.tables.iter().filter_map(size).collect();
                Some(Known { table_sizes, ..Known::default() })
            }
            Self::Details(DetailPart::Ports) => {
                let ports = switch.ports.values().copied().collect();
                Some(Known { ports, ..Known::default() })
            }
        }
    }
}

/// Requests the subject of a question from the switch `dpid`; [`WorkerEvent::Flows`](super::WorkerEvent::Flows) reports the
/// answer.
pub(super) fn request(
    (dpid, question, subject): (u64, u64, Subject),
    switches: &mut Switches,
    output: &mut Output,
    channels: &WorkerChannels,
    now: Instant,
) {
    let Some(RosterEntry { key, .. }) = switches.roster.get(dpid) else {
        return channels.flow_part(question, Part::NoSwitch);
    };
    let connection = &mut switches[key];
    if connection.is_full() {
        let why = "the switch does not read what is sent to it";
        return channels.flows_failed(question, why.into());
    }
    let (phase, mut own) = connection.split();
    let Some(Up { switch, transactions, .. }) = phase.up_mut() else {
        return channels.flow_part(question, Part::NoSwitch);
    };
    let (version, asked) = (switch.version, subject.request());
    let Ok(sent) = own.send(|xid, out| asked.encode(version, xid, out)) else {
        let why = format!("OpenFlow {version}, which the switch speaks, has none");
        return channels.flows_failed(question, why);
    };
    let (xid, size) = (sent.xid, sent.message.len());
    if matches!(subject, Subject::Flows | Subject::Details(DetailPart::Tables)) {
        switch.requests.count(Reason::Operator);
    }
    let expects = Expects::multipart(sent.message).expect("it is one");
    if !transactions.begin_for_operator(xid, question, expects, now) {
        own.withdraw(size);
        let why = "others are asking the same switch; try again in a moment";
        return channels.flows_failed(question, why.into());
    }
    if let Some(known) = subject.known(switch) {
        channels.flow_part(question, Part::Known(known));
    }
    output.note(key, connection);
}
