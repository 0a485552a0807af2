//! The TCP connections of a capture: which of them carry OpenFlow, and whose turn it is.
//!
//! A connection is looked at if it has a port of OpenFlow (6653, 6633 or one the operator names),
//! or if its first bytes seen are a hello. Of the others nothing is kept, so that a capture of
//! anything costs nothing.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use openflow::Header;

use super::packet::Segment;
use super::reassembly::{Piece, Reassembly};
use crate::ofp::framing::{Frame, Framer};

/// Ports of OpenFlow: IANA's, and the one before it.
const PORTS: [u16; 2] = [6653, 6633];
/// Connections kept; when there are more, the half that was silent longest is let go.
const MOST_CONNECTIONS: usize = 4096;
/// Bytes held behind holes, over all connections.
const MOST_HELD: usize = 64 << 20;
/// A hole is given up when the receiver has acknowledged it and this many packets of the
/// connection have come since: packets of one connection may be captured a little out of order.
const PATIENCE: u32 = 8;

/// A hello is a header and, since 1.3, a bitmap, or a few words that mean nothing.
const LONGEST_HELLO: usize = 64;

/// Where a frame comes from and goes to.
pub(in crate::ofp) type Ends = (SocketAddr, SocketAddr);

/// Where frames are handed to, with the ends of their stream.
pub(super) type Give<'a> = &'a mut dyn FnMut(Ends, Frame<'_>);

#[derive(Debug)]
struct Direction {
    /// The SYN's sequence number, if it was captured.
    syn: Option<u32>,
    reassembly: Reassembly,
    /// `None` until the first bytes or the SYN.
    framer: Option<Framer>,
    /// How many packets more a hole that the receiver acknowledged is waited for.
    patience: u32,
}

#[derive(Debug)]
struct Connection {
    /// From the lower address to the higher, and back.
    directions: [Direction; 2],
    /// The count of segments when it had its last.
    last_seen: u64,
}

/// The connections of a capture.
#[derive(Debug)]
pub(super) struct Connections {
    by_ends: HashMap<Ends, Connection>,
    ports: BTreeSet<u16>,
    segments: u64,
    held: usize,
    /// How many connections there were.
    pub(super) seen: u64,
}

impl Connections {
    /// No connections yet; `ports` are looked at besides those of OpenFlow.
    pub(super) fn new(ports: &[u16]) -> Self {
        let ports = PORTS.iter().chain(ports).copied().collect();
        Self { by_ends: HashMap::new(), ports, segments: 0, held: 0, seen: 0 }
    }

    /// Takes a segment and gives what it completes.
    pub(super) fn add(&mut self, segment: &Segment<'_>, give: Give<'_>) {
        let (from, to) = (segment.from, segment.to);
        let key = (from.min(to), from.max(to));
        let way = usize::from(from > to);
        self.segments += 1;
        if !self.by_ends.contains_key(&key) {
            if !self.is_openflow(segment) {
                return;
            }
            if self.by_ends.len() >= MOST_CONNECTIONS {
                self.let_go(give);
            }
            self.seen += 1;
            let directions = [Direction::new(), Direction::new()];
            let connection = Connection { directions, last_seen: 0 };
            self.by_ends.insert(key, connection);
        }
        let Some(connection) = self.by_ends.get_mut(&key) else { return };
        connection.last_seen = self.segments;
        let before = connection.held();
        connection.add(segment, way, give);
        let after = connection.held();
        self.held = self.held + after - before;
        if self.held > MOST_HELD {
            // The one that takes the room gives it back, with its gaps.
            connection.directions[way].with((from, to), give, Reassembly::finish);
            self.held = self.held + connection.held() - after;
        }
    }

    /// Ends every connection: the capture is over.
    pub(super) fn finish(&mut self, give: Give<'_>) {
        let mut keys: Vec<_> = self.by_ends.iter().map(|(key, c)| (c.last_seen, *key)).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            self.end(key, give);
        }
    }

    fn end(&mut self, key: Ends, give: Give<'_>) {
        let Some(mut connection) = self.by_ends.remove(&key) else { return };
        self.held -= connection.held();
        connection.directions[0].end(key, give);
        connection.directions[1].end((key.1, key.0), give);
    }

    fn let_go(&mut self, give: Give<'_>) {
        let mut seen: Vec<_> = self.by_ends.iter().map(|(key, c)| (c.last_seen, *key)).collect();
        seen.sort_unstable();
        seen.truncate(MOST_CONNECTIONS / 2);
        for (_, key) in seen {
            self.end(key, give);
        }
    }

    fn is_openflow(&self, segment: &Segment<'_>) -> bool {
        let known_port =
            [segment.from, segment.to].iter().any(|end| self.ports.contains(&end.port()));
        if known_port {
            return segment.syn || !segment.bytes.is_empty();
        }
        begins_with_hello(segment.bytes)
    }
}

impl Connection {
    fn held(&self) -> usize {
        self.directions.iter().map(|direction| direction.reassembly.held()).sum()
    }

    fn add(&mut self, segment: &Segment<'_>, way: usize, give: Give<'_>) {
        let [lower, higher] = &mut self.directions;
        let (there, back) = if way == 0 { (lower, higher) } else { (higher, lower) };
        let ends = (segment.from, segment.to);
        if segment.syn && there.syn != Some(segment.seq) {
            // A new connection between the same ports, or the first.
            there.end(ends, give);
            there.begin(segment.seq);
        }
        if !segment.bytes.is_empty() {
            if there.framer.is_none() && begins_with_hello(segment.bytes) {
                // The capture began after the SYN, but before the hello.
                there.framer = Some(Framer::from_start());
            }
            let seq = segment.seq.wrapping_add(segment.syn.into());
            there.with(ends, give, |reassembly, pieces| {
                reassembly.add(seq, segment.bytes, pieces);
            });
        }
        if let Some(ack) = segment.ack {
            back.notice(ack, (segment.to, segment.from), give);
        }
    }
}

impl Direction {
    fn new() -> Self {
        Self { syn: None, reassembly: Reassembly::new(), framer: None, patience: PATIENCE }
    }

    fn begin(&mut self, syn: u32) {
        self.syn = Some(syn);
        self.reassembly.begin(syn.wrapping_add(1));
        self.framer = Some(Framer::from_start());
    }

    /// Runs `work` on the reassembly and hands what comes of it to the framer.
    fn with(
        &mut self,
        ends: Ends,
        give: Give<'_>,
        work: impl FnOnce(&mut Reassembly, &mut dyn FnMut(Piece<'_>)),
    ) {
        let framer = self.framer.get_or_insert_with(Framer::from_within);
        work(&mut self.reassembly, &mut |piece| {
            let mut give = |frame: Frame<'_>| give(ends, frame);
            match piece {
                Piece::Data(bytes) => framer.data(bytes, &mut give),
                Piece::Missing(bytes) => framer.missing(bytes, &mut give),
            }
        });
    }

    /// Takes note of what the receiver has: a hole in that will not be filled.
    fn notice(&mut self, ack: u32, ends: Ends, give: Give<'_>) {
        if !self.reassembly.hole_is_acknowledged(ack) {
            self.patience = PATIENCE;
            return;
        }
        self.patience -= 1;
        if self.patience == 0 {
            self.patience = PATIENCE;
            self.with(ends, give, Reassembly::give_up_hole);
        }
    }

    fn end(&mut self, ends: Ends, give: Give<'_>) {
        self.with(ends, give, Reassembly::finish);
        if let Some(framer) = &mut self.framer {
            framer.end(&mut |frame| give(ends, frame));
        }
        *self = Self::new();
    }
}

fn begins_with_hello(bytes: &[u8]) -> bool {
    Header::decode(bytes).is_ok_and(|header| {
        let size = usize::from(header.length);
        (1..=6).contains(&header.version)
            && header.kind == 0
            && size <= LONGEST_HELLO
            && size <= bytes.len()
    })
}
