use super::*;

/// Messages of Open vSwitch 3.1.0 about an entry of table 0 with priority 3 and cookie 5 or 9, which matches TCP port 80.
const ADDED: [(&str, &str); 5] = [
    (
        "0111004800000077ffff00000000232000000002000000000030000000000003000000000011000000000000000000050000060208\
         0000000c010600001402005000000000000000",
        "00000602080000000c010600001402 0050",
    ),
    (
        "0313004800000077ffff00000000000000002320000000020030000000000003000000000011000000000000000000050000060208\
         0000000c010600001402005000000000000000",
        "00000602080000000c010600001402 0050",
    ),
    (
        "0413004800000077ffff0000000000004f4e46000000074e0030000000000003000000000015000000000000000000050001001580\
         000a020800800014010680001c020050000000",
        "80000a020800800014010680001c020050",
    ),
    (
        "051300400000007700100000000000000030000000000000000000030000000000000000000000050001001580000a020800800014\
         010680001c020050000000",
        "80000a020800800014010680001c020050",
    ),
    (
        "061300400000007700100000000000000030000000000000000000030000000000000000000000050001001580000a020800800014\
         010680001c020050000000",
        "80000a020800800014010680001c020050",
    ),
];

/// Its removal together with that of a second entry, in OpenFlow 1.0, 1.3 and 1.4.
const REMOVED: [&str; 3] = [
    "0111006800000000ffff0000000023200000000200000000002000010002000700000000000600000000000000000abc00000002000300\
     0000300001000200030000000000110000000000000000000900000602080000000c010600001402005000000000000000",
    "0413007000000000ffff0000000000004f4e46000000074e002800010002000700000000000c00000000000000000abc0001000c800000\
     0400000003000000000030000100020003000000000015000000000000000000090001001580000a020800800014010680001c02005000\
     0000",
    "05130068000000000010000000000000002800020002000000000007000000000000000000000abc0001000c8000000400000003000000\
     00003000020002000000000003000000000000000000000009 0001001580000a020800800014010680001c020050000000",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn read(message: &[u8]) -> Vec<FlowUpdateView<'_>> {
    FlowUpdates::decode(message).unwrap().expect("it is of a flow monitor").collect()
}

fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    crate::append(&mut out, encode).unwrap();
    out
}

#[test]
fn entries_of_open_vswitch_are_read_in_each_form() {
    for (message, fields) in ADDED {
        let (message, fields) = (bytes(message), bytes(fields));
        let [FlowUpdateView::Entry(entry)] = read(&message)[..] else { panic!("one entry") };
        assert!(matches!(entry.event, FlowEvent::Initial | FlowEvent::Added), "{entry:?}");
        assert_eq!((entry.table_id, entry.priority, entry.cookie), (0, 3, 5));
        assert_eq!(entry.match_fields, fields);
    }
    for message in REMOVED {
        let message = bytes(message);
        let [FlowUpdateView::Entry(one), FlowUpdateView::Entry(other)] = read(&message)[..] else {
            panic!("two entries")
        };
        assert_eq!((one.priority, one.cookie, other.priority, other.cookie), (7, 0xabc, 3, 9));
        for entry in [one, other] {
            let removed = (FlowEvent::Removed, FlowRemovedReason::Delete);
            assert_eq!((entry.event, entry.reason), removed);
        }
    }
}

#[test]
fn own_changes_pauses_and_other_messages_are_told_apart() {
    let abbreviated = [
        "0111002000000000ffff00000000232000000002000000000008000300001234",
        "051300180000000000100000000000000008000400001234",
    ];
    for message in abbreviated {
        assert_eq!(read(&bytes(message)), [FlowUpdateView::Abbreviated(0x1234)]);
    }
    for (message, is) in [
        ("010400100000000000002320 00000016", FlowUpdateView::Paused),
        ("030400100000000000002320 00000017", FlowUpdateView::Resumed),
        ("04040010000000004f4e4600 0000074f", FlowUpdateView::Paused),
        ("04040010000000004f4e4600 00000750", FlowUpdateView::Resumed),
        ("0513001800000000001000000000000000080005 00000000", FlowUpdateView::Paused),
        ("0613001800000000001000000000000000080006 00000000", FlowUpdateView::Resumed),
    ] {
        assert_eq!(read(&bytes(message)), [is], "{message}");
    }
    for message in [
        "0413001000000000000100000000 0000",
        "040400100000000000002320 00000016", // Nicira's, which 1.3 does not have
        "05040010000000004f4e4600 0000074f",
        "0404000c000000004f4e4600",
        "0405000800000000",
        "0413001400000000ffff0000000000004f4e4600",
    ] {
        assert!(FlowUpdates::decode(&bytes(message)).unwrap().is_none(), "{message}");
    }
}

#[test]
fn damaged_updates_are_refused_or_read_and_never_panic() {
    let messages = ADDED.iter().map(|(message, _)| bytes(message));
    for message in messages.chain(REMOVED.iter().map(|message| bytes(message))) {
        for size in 8..message.len() {
            let mut cut = message[..size].to_vec();
            cut[2..4].copy_from_slice(&u16::try_from(size).unwrap().to_be_bytes());
            let _ = FlowUpdates::decode(&cut).map(|it| it.map(Iterator::count));
        }
        for at in 8..message.len() {
            for value in [0, 1, 0x7f, 0xff, message[at].wrapping_add(1)] {
                let mut damaged = message.clone();
                damaged[at] = value;
                let _ = FlowUpdates::decode(&damaged).map(|it| it.map(Iterator::count));
            }
        }
    }
}

#[test]
fn update_of_no_size_is_refused() {
    let mut message = bytes(ADDED[3].0);
    message[17] = 0;
    assert!(FlowUpdates::decode(&message).is_err());
}

#[test]
fn requests_have_the_bytes_that_open_vswitch_accepts() {
    let request = |version, own| encoded(|out| monitor_flows(version, own, 0x77, out));
    let full = OwnChanges::Full;
    let nicira = "0001002fffff0000ff0000000000";
    for (version, expected) in [
        (Version::V1_0, format!("0110002800000077ffff0000 0000232000000002 00000000 0000{nicira}")),
        (Version::V1_2, format!("0312002800000077ffff000000000000 0000232000000002 0000{nicira}")),
        (
            Version::V1_3,
            "0412003000000077ffff0000000000004f4e46000000074e00000001002f0004ffffffffff0000000001000400000000".into(),
        ),
        (
            Version::V1_4,
            "05120028000000770010000000000000 00000001ffffffffffffffff002fff00 0001000400000000".into(),
        ),
    ] {
        assert_eq!(request(version, full), bytes(&expected), "{version}");
    }
    let two = request(Version::V1_5, OwnChanges::FullBySecond);
    let expected = "06120040000000770010000000000000 00000001ffffffffffffffff000fff00 0001000400000000 \
                    00000002ffffffffffffffff004eff00 0001000400000000";
    assert_eq!(two, bytes(expected));
    let mut out = [0; 64];
    for version in [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3] {
        assert!(monitor_flows(version, OwnChanges::FullBySecond, 1, &mut out).is_err());
    }
}

#[test]
fn ends_name_the_monitors_of_the_request() {
    let end = |version, own| encoded(|out| end_monitor(version, own, 9, out));
    let full = OwnChanges::Full;
    assert_eq!(end(Version::V1_0, full), bytes("0104001400000009 00002320 00000015 00000001"));
    assert_eq!(end(Version::V1_3, full), bytes("0404001400000009 4f4e4600 0000074e 00000001"));
    let head = "00000001ffffffffffffffff0000ff02 0001000400000000";
    let expected = format!("0512002800000009 0010000000000000 {head}");
    assert_eq!(end(Version::V1_4, full), bytes(&expected));
    assert_eq!(end(Version::V1_5, OwnChanges::FullBySecond).len(), 64);
}
