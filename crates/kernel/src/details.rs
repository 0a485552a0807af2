//! Collects the details of a switch for an operator: what the kernel knows, and the switch's multipart replies.
//!
//! This runs on the server thread, like [`listing`](crate::flows::listing).

use std::collections::{BTreeMap, VecDeque};

use openflow::{
    Available as _, DescText, MultipartReply, PortDesc, PortStats, ReplyBody, TableStats,
};

use crate::answer_part::{Known, Part};
use control::details::{DetailPart, Details, PAGE, PortDetails, SwitchDescription, TableStatus};
use control::query::KernelQueryReply;

/// Most tables of a switch: their numbers have 8 bits.
const MOST_TABLES: usize = 256;

/// The answer to an operator's question about one part of a switch's details.
#[derive(Debug)]
pub(crate) struct DetailAnswer {
    question: u64,
    part: DetailPart,
    /// Number of workers that may have the switch.
    may_know: usize,
    known: Known,
    messages: Vec<Vec<u8>>,
    /// Ports that are not sent yet.
    ports: VecDeque<PortDetails>,
    complete: bool,
}

impl DetailAnswer {
    /// An empty answer to a question that `workers` workers received.
    pub(crate) fn new(question: u64, part: DetailPart, workers: usize) -> Self {
        Self {
            question,
            part,
            may_know: workers,
            known: Known::default(),
            messages: Vec::new(),
            ports: VecDeque::new(),
            complete: false,
        }
    }

    /// Whether this is the answer to this question.
    pub(crate) fn is_about(&self, question: u64) -> bool {
        self.question == question
    }

    /// Whether all parts have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Adds a part from a worker. Returns the first reply to the operator once it is known.
    pub(crate) fn take(&mut self, part: Part) -> Option<KernelQueryReply> {
        match part {
            Part::NoSwitch => {
                self.may_know = self.may_know.saturating_sub(1);
                (self.may_know == 0).then_some(KernelQueryReply::NoSwitch)
            }
            Part::Known(known) => {
                self.known = known;
                None
            }
            Part::Of { message, last } => {
                self.messages.push(message);
                self.complete = last;
                last.then(|| self.first_reply())
            }
            Part::Failed(why) => Some(KernelQueryReply::Failed { why }),
        }
    }

    /// Returns the next page of ports.
    pub(crate) fn page(&mut self) -> KernelQueryReply {
        let page = self.ports.drain(..PAGE.min(self.ports.len())).collect();
        let more = !self.ports.is_empty();
        KernelQueryReply::Details { details: Details::Ports(page), more }
    }

    fn first_reply(&mut self) -> KernelQueryReply {
        let (mut tables, mut ports, mut description) = (Vec::new(), BTreeMap::new(), None);
        for message in std::mem::take(&mut self.messages) {
            match MultipartReply::decode(&message).map(|reply| reply.body) {
                Ok(ReplyBody::Desc(text)) => description = Some(described(&text)),
                Ok(ReplyBody::Table(more)) => tables.extend(more),
                Ok(ReplyBody::PortStats(more)) => {
                    ports.extend(more.into_iter().map(|stats| (stats.port_no.0, stats)));
                }
                Ok(_) => {} // the transaction table has checked the type
                Err(error) => {
                    let why = format!("the switch's answer is malformed: {error}");
                    return KernelQueryReply::Failed { why };
                }
            }
        }
        let details = match self.part {
            DetailPart::Description => {
                let Some(description) = description else {
                    let why = "the switch's answer is empty".to_owned();
                    return KernelQueryReply::Failed { why };
                };
                Details::Description(description)
            }
            DetailPart::Tables => Details::Tables(
                tables
                    .iter()
                    .take(MOST_TABLES)
                    .map(|table| table_status(table, &self.known.table_sizes))
                    .collect(),
            ),
            DetailPart::Ports => {
                let known = std::mem::take(&mut self.known.ports).into_iter();
                self.ports =
                    known.map(|port| port_details(&port, ports.get(&port.port_no.0))).collect();
                return self.page();
            }
        };
        KernelQueryReply::Details { details, more: false }
    }
}

fn described(text: &DescText) -> SwitchDescription {
    SwitchDescription {
        manufacturer: text.mfr_desc.to_string(),
        hardware: text.hw_desc.to_string(),
        software: text.sw_desc.to_string(),
        serial: text.serial_num.to_string(),
        datapath: text.dp_desc.to_string(),
    }
}

fn table_status(table: &TableStats, sizes: &BTreeMap<u8, u32>) -> TableStatus {
    // OpenFlow 1.3 has the size in the table features only.
    let stated = table.max_entries.available().filter(|size| *size != 0);
    TableStatus {
        table: table.table_id,
        name: table.name.as_ref().map(ToString::to_string),
        flows: table.active_count.available(),
        size: stated.or_else(|| sizes.get(&table.table_id).copied()),
        lookups: table.lookup_count.available(),
        matched: table.matched_count.available(),
    }
}

/// `stats` is `None` if the switch reports no counters of the port.
fn port_details(port: &PortDesc, stats: Option<&PortStats>) -> PortDetails {
    let count = |of: fn(&PortStats) -> u64| stats.and_then(|stats| of(stats).available());
    PortDetails {
        port: port.port_no.to_string(),
        name: port.name.to_string(),
        hw_addr: port.hw_addr.to_string(),
        up: port.is_up(),
        speed_kbps: Some(port.curr_speed).filter(|speed| *speed != 0),
        rx_packets: count(|it| it.rx_packets),
        tx_packets: count(|it| it.tx_packets),
        rx_bytes: count(|it| it.rx_bytes),
        tx_bytes: count(|it| it.tx_bytes),
        rx_dropped: count(|it| it.rx_dropped),
        tx_dropped: count(|it| it.tx_dropped),
        rx_errors: count(|it| it.rx_errors),
        tx_errors: count(|it| it.tx_errors),
    }
}

#[cfg(test)]
mod tests {
    use openflow::{MacAddr, PortNo, Version};

    use super::*;

    fn stats(port: u32) -> PortStats {
        PortStats {
            port_no: PortNo(port),
            rx_packets: u64::from(port),
            tx_packets: u64::MAX,
            rx_bytes: 0,
            tx_bytes: 0,
            rx_dropped: 0,
            tx_dropped: 0,
            rx_errors: 0,
            tx_errors: 0,
            rx_frame_err: 0,
            rx_over_err: 0,
            rx_crc_err: 0,
            collisions: 0,
            duration: None,
        }
    }

    fn part(body: ReplyBody<'_>, last: bool) -> Part {
        let mut message = Vec::new();
        let reply = MultipartReply { more: !last, body };
        openflow::append(&mut message, |out| reply.encode(Version::V1_3, 1, out)).unwrap();
        Part::Of { message, last }
    }

    #[test]
    fn ports_arrive_in_pages_with_their_counters() {
        let mut answer = DetailAnswer::new(7, DetailPart::Ports, 2);
        assert!(answer.is_about(7) && answer.take(Part::NoSwitch).is_none());
        let count = u32::try_from(PAGE).unwrap() + 1;
        let port = |number| PortDesc::new(PortNo(number), MacAddr::default(), "p");
        let known = Known { ports: (1..=count).map(port).collect(), ..Known::default() };
        assert!(answer.take(Part::Known(known)).is_none());
        let first = (1..=100).map(stats).collect();
        assert!(answer.take(part(ReplyBody::PortStats(first), false)).is_none());
        assert!(!answer.is_complete());
        let second = (101..count).map(stats).collect(); // no counters of the last port
        let Some(KernelQueryReply::Details { details: Details::Ports(page), more: true }) =
            answer.take(part(ReplyBody::PortStats(second), true))
        else {
            panic!("a page, and more")
        };
        assert!(answer.is_complete());
        assert_eq!(page.len(), PAGE);
        assert_eq!(
            (page[0].port.as_str(), page[0].rx_packets, page[0].tx_packets),
            ("1", Some(1), None)
        );
        assert_eq!(page[110].rx_packets, Some(111));
        let KernelQueryReply::Details { details: Details::Ports(rest), more: false } =
            answer.page()
        else {
            panic!("the last page")
        };
        assert_eq!((rest.len(), rest[0].rx_packets), (1, None));
    }

    #[test]
    fn table_has_the_size_that_the_kernel_knows() {
        let table = TableStats {
            table_id: 3,
            name: None,
            wildcards: 0,
            max_entries: 0,
            active_count: 5,
            lookup_count: 7,
            matched_count: 6,
        };
        let mut answer = DetailAnswer::new(1, DetailPart::Tables, 1);
        let known = Known { table_sizes: BTreeMap::from([(3, 1000)]), ..Known::default() };
        answer.take(Part::Known(known));
        let reply = answer.take(part(ReplyBody::Table(vec![table]), true)).unwrap();
        let expected = TableStatus {
            table: 3,
            name: None,
            flows: Some(5),
            size: Some(1000),
            lookups: Some(7),
            matched: Some(6),
        };
        let details = Details::Tables(vec![expected]);
        assert_eq!(reply, KernelQueryReply::Details { details, more: false });
    }

    #[test]
    fn counters_of_all_ones_are_not_available() {
        let v1_0 = "0111004c0000001e0003000000000000636c617373696669657200000000000000000000000000000000000000000000003fffff\
                    000003e8ffffffffffffffffffffffffffffffffffffffff";
        let v1_3 =
            "0413002800000021000300000000000000000000ffffffffffffffffffffffffffffffffffffffff";
        for (hex, size) in [(v1_0, Some(1000)), (v1_3, None)] {
            let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let message = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            let mut answer = DetailAnswer::new(1, DetailPart::Tables, 1);
            let reply = answer.take(Part::Of { message, last: true }).unwrap();
            let KernelQueryReply::Details { details: Details::Tables(tables), .. } = reply else {
                panic!("no tables: {reply:?}")
            };
            let shown = (tables[0].flows, tables[0].size, tables[0].lookups, tables[0].matched);
            assert_eq!(shown, (None, size, None, None));
        }
    }

    #[test]
    fn unknown_switch_and_malformed_answer_are_reported() {
        let mut answer = DetailAnswer::new(1, DetailPart::Description, 1);
        assert_eq!(answer.take(Part::NoSwitch), Some(KernelQueryReply::NoSwitch));
        let mut answer = DetailAnswer::new(1, DetailPart::Description, 1);
        let reply = answer.take(Part::Of { message: vec![4, 19, 0, 8, 0, 0, 0, 1], last: true });
        assert!(matches!(reply, Some(KernelQueryReply::Failed { .. })), "{reply:?}");
    }
}
