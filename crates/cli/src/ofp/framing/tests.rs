//! Tests streams with fragments, gaps and invalid bytes.

use super::*;

const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];
const BARRIER: [u8; 8] = [4, 20, 0, 8, 0, 0, 0, 2];

fn echo(size: u16) -> Vec<u8> {
    let mut message = vec![4, 2, 0, 0, 0, 0, 0, 3];
    message[2..4].copy_from_slice(&size.to_be_bytes());
    message.resize(size.into(), 0xaa);
    message
}

/// Short descriptions of a stream's elements: `m8` is a message of 8 bytes.
struct Events(Vec<String>);

impl Events {
    fn new() -> Self {
        Self(Vec::new())
    }
    fn give(&mut self) -> impl FnMut(Frame<'_>) {
        |frame| {
            self.0.push(match frame {
                Frame::Message(message) => format!("m{}", message.len()),
                Frame::Incomplete { size, have } => format!("{have} of {size:?}"),
                Frame::Missing(bytes) => format!("missing {bytes}"),
                Frame::Skipped(bytes) => format!("skipped {bytes}"),
                Frame::Tls => "tls".to_owned(),
            });
        }
    }
}

enum In<'a> {
    Data(&'a [u8]),
    Missing(u64),
}
use In::{Data, Missing};

fn cut(mut framer: Framer, input: &[In<'_>]) -> Vec<String> {
    let mut told = Events::new();
    for piece in input {
        match piece {
            Data(bytes) => framer.data(bytes, &mut told.give()),
            Missing(bytes) => framer.missing(*bytes, &mut told.give()),
        }
    }
    framer.end(&mut told.give());
    told.0
}

#[test]
fn fragmented_stream_gives_its_messages() {
    let stream = [&HELLO[..], &echo(300), &BARRIER].concat();
    for size in 1..=stream.len() {
        let pieces: Vec<_> = stream.chunks(size).map(Data).collect();
        assert_eq!(cut(Framer::from_start(), &pieces), ["m8", "m300", "m8"]);
        assert_eq!(cut(Framer::from_within(), &pieces), ["m8", "m300", "m8"], "{size}");
    }
}

#[test]
fn gap_inside_a_message_loses_only_it() {
    let echo = echo(300);
    let input = [Data(&HELLO), Data(&echo[..100]), Missing(50), Data(&echo[150..]), Data(&BARRIER)];
    let told = cut(Framer::from_start(), &input);
    assert_eq!(told, ["m8", "100 of Some(300)", "missing 50", "m8"]);

    let input = [Data(&HELLO), Data(&echo[..100]), Missing(200), Data(&BARRIER)];
    let told = cut(Framer::from_start(), &input);
    assert_eq!(told, ["m8", "100 of Some(300)", "missing 200", "m8"]);
}

#[test]
fn two_gaps_inside_a_message_lose_only_it() {
    let echo = echo(300);
    let parts = [Data(&echo[..100]), Missing(50), Data(&echo[150..200]), Missing(10)];
    let input: Vec<_> = parts.into_iter().chain([Data(&echo[210..]), Data(&BARRIER)]).collect();
    let told = cut(Framer::from_start(), &input);
    assert_eq!(told, ["100 of Some(300)", "missing 50", "missing 10", "m8"]);
}

#[test]
fn gap_over_a_boundary_is_followed_by_a_search() {
    let echo = echo(300);
    let rest = [&echo[250..], &BARRIER, &HELLO].concat();
    let told = cut(Framer::from_start(), &[Data(&HELLO), Missing(1000), Data(&rest)]);
    assert_eq!(told, ["m8", "missing 1000", "skipped 50", "m8", "m8"]);

    let told = cut(Framer::from_start(), &[Data(&HELLO), Missing(8), Data(&BARRIER)]);
    assert_eq!(told, ["m8", "missing 8", "m8"]);
}

#[test]
fn fragmented_message_after_a_gap_is_found() {
    let echo = echo(5000);
    let mut input = vec![Data(&HELLO), Missing(1000)];
    input.extend(echo.chunks(1448).map(Data));
    input.push(Data(&BARRIER));
    assert_eq!(cut(Framer::from_start(), &input), ["m8", "missing 1000", "m5000", "m8"]);
}

#[test]
fn invalid_bytes_are_skipped_and_counted() {
    let stream = [&HELLO[..], &[0xff; 37], &BARRIER, &HELLO].concat();
    assert_eq!(cut(Framer::from_start(), &[Data(&stream)]), ["m8", "skipped 37", "m8", "m8"]);
    let told = cut(Framer::from_start(), &[Data(&[0xff; 100])]);
    assert_eq!(told, ["skipped 100"]);
}

#[test]
fn length_shorter_than_a_header_does_not_loop() {
    let stream = [&[4, 0, 0, 0, 0, 0, 0, 0][..], &BARRIER].concat();
    assert_eq!(cut(Framer::from_start(), &[Data(&stream)]), ["skipped 8", "m8"]);
}

#[test]
fn message_of_another_version_is_framed() {
    let other = [5, 0, 0, 8, 0, 0, 0, 1];
    assert_eq!(cut(Framer::from_start(), &[Data(&other), Data(&HELLO)]), ["m8", "m8"]);
}

#[test]
fn truncated_stream_is_reported() {
    assert_eq!(cut(Framer::from_start(), &[Data(&HELLO[..2])]), ["2 of None"]);
    assert_eq!(cut(Framer::from_start(), &[Data(&echo(90)[..60])]), ["60 of Some(90)"]);
}

#[test]
fn tls_is_reported_once() {
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];
    let told = cut(Framer::from_start(), &[Data(&hello[..2]), Data(&hello[2..]), Missing(7)]);
    assert_eq!(told, ["tls"]);
}
