use proptest::prelude::*;

use super::super::layout::{Placement, Writes};
use super::*;

fn all() -> Vec<Record> {
    let (dpid, port, quality) = (Dpid(7), PortNo(3), Quality::default());
    let traffic = |number| Traffic {
        dpid,
        number,
        quality: Quality { is_stale: true, is_implausible: false },
        packets: Some(1),
        bytes: Some(2),
        pps: Some(0),
        bps: None,
        read_ms: 5,
    };
    vec![
        Record::Switch(SwitchStats {
            dpid,
            quality,
            flows: Some(9),
            packets: None,
            bytes: Some(3),
            unanswered: 2,
            answer_us: Some(90),
            read_ms: 77,
        }),
        Record::Port(PortCounters {
            dpid,
            port,
            quality: Quality { is_stale: false, is_implausible: true },
            rx_packets: Some(1),
            tx_packets: None,
            rx_bytes: Some(0),
            tx_bytes: Some(u64::MAX - 1),
            read_ms: 8,
        }),
        Record::Rates(PortRates {
            dpid,
            port,
            quality,
            rx_bps: None,
            tx_bps: Some(5),
            rx_pps: Some(6),
            tx_pps: None,
            rx_dropped: Some(0),
            tx_dropped: Some(7),
            rx_errors: None,
            tx_errors: Some(u32::MAX - 1),
        }),
        Record::Table(TableStats {
            dpid,
            table: 200,
            quality,
            flows: Some(1),
            lookups: Some(2),
            matches: None,
            lookups_per_s: Some(4),
            read_ms: 1,
        }),
        Record::Group(traffic(9)),
        Record::Meter(traffic(9)),
    ]
}

#[test]
fn records_survive_and_are_found() {
    let mut table = vec![[0; 7]; 64];
    let mut writes = Writes::new();
    let mut placement = Placement::new(64, &mut writes).unwrap();
    for record in all() {
        assert_eq!(Record::of_slot(&record.to_slot()), Some(record));
        placement.insert(record.name(), record.to_slot(), &mut writes).unwrap();
    }
    for (slot, record) in writes {
        table[slot as usize] = record;
    }
    for record in all() {
        assert_eq!(find(&table, record.name()), Some(record));
    }
    assert_eq!(find_switch(&table, Dpid(7)).map(|it| it.unanswered), Some(2));
    assert_eq!(find_port(&table, Dpid(7), PortNo(3)).map(|it| it.read_ms), Some(8));
    assert_eq!(find_rates(&table, Dpid(7), PortNo(3)).map(|it| it.tx_bps), Some(Some(5)));
    assert_eq!(find_port(&table, Dpid(7), PortNo(4)), None);
    assert_eq!(find_rates(&table, Dpid(8), PortNo(3)), None);
}

#[test]
fn history_survives_and_cut_messages_are_refused() {
    let request = HistoryRequest { dpid: Dpid(1), port: PortNo(9) };
    let bytes = request.encode();
    assert_eq!(HistoryRequest::decode(&bytes), Some(request));
    for cut in 0..bytes.len() {
        assert_eq!(HistoryRequest::decode(&bytes[..cut]), None);
    }
    let sample = Sample { at_s: 1, rx_kbps: 2, tx_kbps: 3, rx_pps: 4, tx_pps: 5 };
    for history in [History::Samples(vec![sample; 3]), History::Unknown, History::Malformed] {
        let bytes = history.encode();
        assert_eq!(History::decode(&bytes), Some(history));
        assert_eq!(History::decode(&[&bytes[..], &[9]].concat()), None);
    }
    let long = History::Samples(vec![sample; MOST_SAMPLES + 9]).encode();
    assert!(long.len() <= super::super::MAX_MESSAGE);
    assert_eq!(History::decode(&long), Some(History::Samples(vec![sample; MOST_SAMPLES])));
}

proptest! {
    #[test]
    fn random_slots_are_read_without_panic(slot in any::<Slot>(), kind in 0_u64..9) {
        let slot = [slot[0] & !0xff | kind, slot[1], slot[2], slot[3], slot[4], slot[5], slot[6]];
        if let Some(record) = Record::of_slot(&slot) {
            prop_assert_eq!(Record::of_slot(&record.to_slot()), Some(record));
        }
    }
}
