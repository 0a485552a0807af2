//! Tests notations of messages.

use super::*;

fn items(text: &str) -> Vec<(u64, Result<Vec<u8>, String>)> {
    let mut items = Items::new(text.as_bytes());
    std::iter::from_fn(|| items.next().unwrap()).map(|item| (item.line, item.bytes)).collect()
}

const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

#[test]
fn every_notation_parses_to_its_bytes() {
    for line in [
        "0400000800000001",
        "  04 00 00 08 00 00 00 01\r",
        "04000008 00000001 # a hello",
        "0x04, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x01,",
        "{0x4, 0x0, 0x0, 0x8, 0x0, 0x0, 0x0, 0x1}",
        "04:00:00:08:00:00:00:01",
        "someone\tHELLO\tT0/C1\t0400000800000001",
    ] {
        assert_eq!(items(line), [(1, Ok(HELLO.to_vec()))], "{line}");
    }
}

#[test]
fn blank_lines_and_comments_are_skipped() {
    let text = "# first\n\n0400000800000001\n   # more\n0400000800000001";
    assert_eq!(items(text), [(3, Ok(HELLO.to_vec())), (5, Ok(HELLO.to_vec()))]);
}

#[test]
fn invalid_line_names_the_reason() {
    let found = items("040000080000000\nhello there\n0400000800000001\n");
    assert_eq!(found[0].1, Err("15 hexadecimal digits; a byte has two".to_owned()));
    let why = r#"'h' is not a hexadecimal digit, in "hello there...""#;
    assert_eq!(found[1].1, Err(why.to_owned()));
    assert_eq!(found[2], (3, Ok(HELLO.to_vec())));
}

#[test]
fn hexdumps_are_one_item_each() {
    let bytes: Vec<u8> = [4, 2, 0, 24].into_iter().chain(0x61..=0x74).chain([0xca, 0xfe]).collect();
    let xxd = "00000000: 0402 0018 6162 6364 6566 6768 696a 6b6c  ....abcdefghijkl\n\
               00000010: 6d6e 6f70 7172 7374 cafe                 mnopqrst..\n";
    let hexdump = "00000000  04 02 00 18 61 62 63 64  65 66 67 68 69 6a 6b 6c  |....abcdefghijkl|\n\
                   00000010  6d 6e 6f 70 71 72 73 74  ca fe                    |mnopqrst..|\n\
                   0000001a\n";
    let wireshark = "0000  04 02 00 18 61 62 63 64 65 66 67 68 69 6a 6b 6c   ....abcdefghijkl\n\
                     0010  6d 6e 6f 70 71 72 73 74 ca fe                     mnopqrst..\n\n";
    let tcpdump = "\t0x0000:  0402 0018 6162 6364 6566 6768 696a 6b6c\n\
                   \t0x0010:  6d6e 6f70 7172 7374 cafe\n";
    for dump in [xxd, hexdump, wireshark, tcpdump] {
        assert_eq!(items(dump), [(1, Ok(bytes.clone()))], "{dump}");
    }
    let twice = xxd.to_owned() + wireshark;
    assert_eq!(items(&twice), [(1, Ok(bytes.clone())), (3, Ok(bytes.clone()))]);
    let between = wireshark.to_owned() + "0400000800000001\n";
    assert_eq!(items(&between), [(1, Ok(bytes.clone())), (4, Ok(HELLO.to_vec()))]);
}

#[test]
fn endless_line_is_an_error() {
    let long = "04".repeat(MAX_LINE_SIZE) + "\n0400000800000001\n";
    let found = items(&long);
    assert_eq!(found[0], (1, Err("the line is longer than 2 MiB".to_owned())));
    assert_eq!(found[1], (2, Ok(HELLO.to_vec())));
}

#[test]
fn text_is_recognised_by_a_line_of_digits() {
    assert!(may_hold_messages(b"source\ttype\thex\nx\tHELLO\t0400000800000001\n"));
    assert!(may_hold_messages(b"04000008000000010")); // goes on
    assert!(!may_hold_messages(b"Dear all,\n\nnothing to see here\n"));
}
