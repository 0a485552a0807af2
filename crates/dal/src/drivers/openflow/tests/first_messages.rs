//! Tests the negotiation of the version.

use super::*;

/// Returns the version that a first message of these bytes leads to, or the version of the error that refuses it. The
/// error's text must name the versions of this controller.
fn negotiate(hello: &[u8]) -> Result<u8, u8> {
    let mut script = Script::new();
    assert_eq!(recognise(hello), Ok(()));
    let received = script.receive(hello);
    let (ours, answer) = framing::cut(&script.out).unwrap().unwrap();
    assert_eq!(ours[1], 0, "our hello comes first");
    let kind = answer[1];
    match received {
        Ok(event) => {
            assert!(event.is_none());
            assert_eq!(kind, 5, "a features request");
            Ok(answer[0])
        }
        Err(closed) => {
            assert!(matches!(closed, Closed::Incompatible { .. }), "{closed}");
            let error = ErrorMessage::decode_body(Version::V1_3, answer).unwrap();
            assert_eq!((kind, error.kind, error.code), (1, ErrorMessage::HELLO_FAILED, 0));
            assert!(error.data.is_ascii() && error.data.ends_with(b"1.0, 1.2, 1.3, 1.4, 1.5"));
            Err(answer[0])
        }
    }
}

#[test]
fn version_is_negotiated_with_hellos_of_every_version() {
    // Version byte, bitmap, and the negotiated version or that of the error.
    let hellos = [
        (0x01, None, Ok(1)),
        (0x04, None, Ok(4)),
        (0x05, None, Ok(4)),
        (0x07, None, Ok(4)),
        (0x16, None, Ok(4)),
        (0xff, None, Ok(4)),
        (0x00, None, Err(1)),
        (0x02, None, Err(2)),
        (0x03, None, Ok(3)),
        (0x07, Some(0x92), Ok(4)),
        (0x07, Some(0x82), Ok(1)),
        (0x04, Some(0x02), Ok(1)),
        (0x07, Some(0x80), Err(4)),
        (0x06, Some(0x40), Ok(6)),
        (0x06, Some(0x6c), Ok(6)),
        (0x05, Some(0x20), Ok(5)),
        (0x07, Some(0x01), Ok(4)),
    ];
    for (version, bitmap, spoken) in hellos {
        let mut hello = vec![version, 0, 0, 8, 0, 0, 0, 0x99];
        if let Some(bitmap) = bitmap {
            hello[3] = 16;
            hello.extend([0, 1, 0, 8, 0, 0, 0, bitmap]);
        }
        assert_eq!(negotiate(&hello), spoken, "{version:#x} {bitmap:x?}");
    }
}

#[test]
fn operators_choice_limits_the_versions() {
    let versions: OfferedVersions = "1.0,1.4".parse().unwrap();
    let script = || Script::offering(versions);
    let mut all = script();
    all.receive(&hello(Version::ALL)).unwrap();
    let (ours, answer) = framing::cut(&all.out).unwrap().unwrap();
    let ours = Hello::decode(ours).unwrap();
    assert_eq!((ours.version, ours.bitmap), (5, Some(0b10_0010)));
    assert_eq!(answer[..2], [5, 5], "the highest common version");
    let mut other = script();
    let closed = other.receive(&hello(&[Version::V1_3])).unwrap_err();
    assert_eq!(closed, Closed::Incompatible { ours: versions, theirs: "1.3".into() });
    assert!(other.out.ends_with(b"this controller speaks 1.0, 1.4"));
}

#[test]
fn switch_that_answers_our_hello_speaks_the_highest_common_version() {
    let mut script = Script::new();
    script.session.tick(script.start + Timing::default().hello, &mut script.out).unwrap();
    let ours = Hello::decode(&script.out).unwrap();
    assert_eq!((ours.version, ours.bitmap), (6, Some(0b111_1010)));
    script.out.clear();
    script.receive(&hello(&[Version::V1_0, Version::V1_3, Version::V1_4])).unwrap();
    assert_eq!(script.out[..2], [5, 5], "it computes 1.4 from both hellos");
}

#[test]
fn hello_of_later_versions_is_accepted() {
    let bitmap = [0, 1, 0, 8, 0, 0, 0, 0x92];
    let unknown = [0, 9, 0, 6, 1, 2, 0, 0];
    let oversize = [&[0, 1, 1, 0x84, 0, 0, 0, 0x12][..], &[0xff; 0x180], &[0; 4]].concat();
    let bodies: [Vec<u8>; 6] = [
        [unknown, bitmap].concat(),
        [bitmap, bitmap].concat(),
        [&bitmap[..], &[0xff; 3]].concat(),
        vec![0xff; 40],
        [&[0, 1, 0, 4][..], &[0; 4]].concat(),
        oversize,
    ];
    for body in bodies {
        let [high, low] = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
        let hello = [&[7, 0, high, low, 0, 0, 0, 1][..], &body].concat();
        assert_eq!(negotiate(&hello), Ok(4), "{body:x?}");
    }
}

#[test]
fn messages_in_the_hellos_version_are_accepted_at_first() {
    let mut script = Script::new();
    script.receive(&[7, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    script.out.clear();
    assert!(script.receive(&[7, 0, 0, 8, 0, 0, 0, 1]).unwrap().is_none(), "a second hello");
    assert!(script.receive(&[7, 3, 0, 8, 0, 0, 0, 1]).unwrap().is_none(), "an echo reply");
    assert!(script.out.is_empty());
    script.receive(&[7, 2, 0, 9, 0, 0, 0, 2, 0xee]).unwrap();
    assert_eq!(script.out, [7, 3, 0, 9, 0, 0, 0, 2, 0xee]);
    // Any other message in another version ends the session, and so does a refusal.
    let closed = script.receive(&[7, 10, 0, 8, 0, 0, 0, 2]).unwrap_err();
    assert_eq!(closed, Closed::WrongVersion { theirs: 7, agreed: Version::V1_3 });
    let mut script = Script::new();
    script.receive(&[7, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    let closed = script.receive(&[8, 2, 0, 8, 0, 0, 0, 2]).unwrap_err();
    assert_eq!(closed, Closed::WrongVersion { theirs: 8, agreed: Version::V1_3 }, "an echo");
    for version in [4, 7] {
        let mut script = Script::new();
        script.receive(&[7, 0, 0, 8, 0, 0, 0, 1]).unwrap();
        let refusal = [version, 1, 0, 14, 0, 0, 0, 1, 0, 0, 0, 0, b'n', b'o'];
        let closed = script.receive(&refusal).unwrap_err();
        let why = "HELLO_FAILED/INCOMPATIBLE \"no\"".to_owned();
        assert_eq!(
            closed,
            Closed::Refused {
                ours: OfferedVersions::default(),
                theirs: "up to version 0x07".into(),
                why
            }
        );
    }
}

#[test]
fn other_protocols_are_recognised() {
    for knock in [&b"GET / HTTP/1.1"[..], &[0x16, 0x03, 0x01], &[0xff; 8], &[0; 8]] {
        assert!(matches!(recognise(knock), Err(Closed::NotOpenFlow(_))));
    }
    assert!(matches!(recognise(&[7, 0, 0, 7]), Err(Closed::NotOpenFlow(_))));
    // A hello may have any version, also one that other protocols begin with.
    for version in [0, 1, 4, 7, 0x16, b'G', 0xff] {
        let hello = [version, 0, 0, 8, 0, 0, 0, 1];
        (0..=8).for_each(|len| assert_eq!(recognise(&hello[..len]), Ok(()), "{version} {len}"));
    }
}
