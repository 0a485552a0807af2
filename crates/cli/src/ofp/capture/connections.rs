//! Tracks the TCP connections of a capture and selects those that carry OpenFlow.
//!
//! A connection is selected if it uses an OpenFlow port (6653, 6633 or a port given by the
//! operator), or if its first captured bytes are a hello. No state is kept for others, so captures
//! with much other traffic cost nothing.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use openflow::Header;

use super::packet::Segment;
use super::reassembly::{Piece, Reassembly};
use crate::ofp::framing::{Frame, Framer};

/// OpenFlow ports: the one assigned by IANA, and its predecessor.
const PORTS: [u16; 2] = [6653, 6633];
/// Maximum number of connections; beyond it, the half that was silent longest is evicted.
const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of bytes held behind gaps, over all connections.
const MAX_HELD: usize = 64 << 20;
/// A gap is given up once the receiver has acknowledged it and this many later packets of the
/// connection were seen, because packets may be captured slightly out of order.
const REORDER_WINDOW: u32 = 8;

/// Maximum size of a hello: a header, and a bitmap or a few arbitrary words.
const MAX_HELLO_SIZE: usize = 64;

/// Source and destination of a frame.
pub(in crate::ofp) type Ends = (SocketAddr, SocketAddr);

/// Receives the frames, with source and destination of their stream.
pub(super) type Give<'a> = &'a mut dyn FnMut(Ends, Frame<'_>);

#[derive(Debug)]
struct Direction {
    /// Sequence number of the SYN, if it was captured.
    syn: Option<u32>,
    reassembly: Reassembly,
    /// `None` until the first bytes or the SYN.
    framer: Option<Framer>,
    /// Number of further packets before an acknowledged gap is given up.
    patience: u32,
}

#[derive(Debug)]
struct Connection {
    /// From the lower address to the higher one, and back.
    directions: [Direction; 2],
    /// Segment count at its last segment.
    last_seen: u64,
}

/// The connections of a capture.
#[derive(Debug)]
pub(super) struct Connections {
    by_ends: HashMap<Ends, Connection>,
    ports: BTreeSet<u16>,
    segments: u64,
    held: usize,
    /// Number of connections seen.
    pub(super) seen: u64,
}

impl Connections {
    /// Creates an empty tracker; `ports` are selected in addition to the OpenFlow ports.
    pub(super) fn new(ports: &[u16]) -> Self {
        let ports = PORTS.iter().chain(ports).copied().collect();
        Self { by_ends: HashMap::new(), ports, segments: 0, held: 0, seen: 0 }
    }

    /// Handles a segment and passes on the frames that it completes.
    pub(super) fn add(&mut self, segment: &Segment<'_>, give: Give<'_>) {
        let (from, to) = (segment.from, segment.to);
        let key = (from.min(to), from.max(to));
        let way = usize::from(from > to);
        self.segments += 1;
        if !self.by_ends.contains_key(&key) {
            if !self.is_openflow(segment) {
                return;
            }
            if self.by_ends.len() >= MAX_CONNECTIONS {
                self.evict(give);
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
        if self.held > MAX_HELD {
            // The connection that exceeds the limit gives up its held bytes, with gaps.
            connection.directions[way].with((from, to), give, Reassembly::finish);
            self.held = self.held + connection.held() - after;
        }
    }

    /// Ends all connections at the end of the capture.
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

    fn evict(&mut self, give: Give<'_>) {
        let mut seen: Vec<_> = self.by_ends.iter().map(|(key, c)| (c.last_seen, *key)).collect();
        seen.sort_unstable();
        seen.truncate(MAX_CONNECTIONS / 2);
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
            // The first connection between these ports, or a new one.
            there.end(ends, give);
            there.begin(segment.seq);
        }
        if !segment.bytes.is_empty() {
            if there.framer.is_none() && begins_with_hello(segment.bytes) {
                // The capture started between the SYN and the hello.
                there.framer = Some(Framer::from_start());
            }
            let seq = segment.seq.wrapping_add(segment.syn.into());
            there.with(ends, give, |reassembly, pieces| {
                reassembly.add(seq, segment.bytes, pieces);
            });
        }
        if let Some(ack) = segment.ack {
            back.acknowledge(ack, (segment.to, segment.from), give);
        }
    }
}

impl Direction {
    fn new() -> Self {
        Self { syn: None, reassembly: Reassembly::new(), framer: None, patience: REORDER_WINDOW }
    }

    fn begin(&mut self, syn: u32) {
        self.syn = Some(syn);
        self.reassembly.begin(syn.wrapping_add(1));
        self.framer = Some(Framer::from_start());
    }

    /// Runs `work` on the reassembly and passes its output to the framer.
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

    /// Handles an acknowledgement: a gap before it will not be filled any more.
    fn acknowledge(&mut self, ack: u32, ends: Ends, give: Give<'_>) {
        if !self.reassembly.hole_is_acknowledged(ack) {
            self.patience = REORDER_WINDOW;
            return;
        }
        self.patience -= 1;
        if self.patience == 0 {
            self.patience = REORDER_WINDOW;
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
            && size <= MAX_HELLO_SIZE
            && size <= bytes.len()
    })
}
