//! Reassembles one direction of a TCP connection. Segments come in any order and repeatedly; the
//! stream comes out in order and once, with markers for missing bytes.
//!
//! No reassembly crate was suitable: the existing ones read from a device, have an incompatible
//! licence, or are unmaintained. The error-prone part, tracking the ranges received, is `smoltcp`'s
//! [`Assembler`], which a widely used TCP stack relies on. This module adds sequence numbers and
//! the bytes.
//!
//! ```text
//!         next            held[0] is the byte at `next`
//!          v
//! ---given-|........|======|.....|===|
//!            hole 1  data   hole 2 data
//! ```

use smoltcp::storage::Assembler;

/// Maximum distance of bytes held behind a gap; a gap with more behind it is given up.
const WINDOW: usize = 4 << 20;

/// A part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The next bytes.
    Data(&'a [u8]),
    /// Number of missing bytes at this position.
    Missing(u64),
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// Sequence number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// Bytes from `next` on; `there` says which of them are valid.
    held: Vec<u8>,
    there: Assembler,
}

impl Reassembly {
    pub(super) fn new() -> Self {
        Self { next: None, held: Vec::new(), there: Assembler::new() }
    }

    /// Starts the stream at this sequence number, the SYN's plus one.
    pub(super) fn begin(&mut self, first: u32) {
        self.next = Some(first);
    }

    /// Handles a segment and passes on the next bytes of the stream.
    pub(super) fn add(&mut self, seq: u32, mut bytes: &[u8], give: &mut dyn FnMut(Piece<'_>)) {
        if bytes.is_empty() {
            return;
        }
        loop {
            let next = *self.next.get_or_insert(seq);
            let ahead = seq.wrapping_sub(next).cast_signed();
            let offset = usize::try_from(ahead).unwrap_or(0);
            if ahead < 0 {
                // A retransmission: only the bytes after `next` are new.
                let old = usize::try_from(ahead.unsigned_abs()).unwrap_or(usize::MAX);
                bytes = bytes.get(old..).unwrap_or_default();
                if bytes.is_empty() {
                    return;
                }
                return self.add(next, bytes, give);
            }
            if offset == 0 && self.there.is_empty() {
                self.advance(bytes.len());
                return give(Piece::Data(bytes));
            }
            if offset > WINDOW && self.there.is_empty() {
                give(Piece::Missing(offset as u64));
                self.advance(offset);
            } else if offset + bytes.len() > WINDOW {
                self.give_up_hole(give);
            } else if let Ok(ready) = self.there.add_then_remove_front(offset, bytes.len()) {
                let end = offset + bytes.len();
                if self.held.len() < end {
                    self.held.resize(end, 0);
                }
                self.held[offset..end].copy_from_slice(bytes);
                return self.give_held(ready, give);
            } else {
                self.give_up_hole(give); // more gaps than the assembler tracks
            }
        }
    }

    /// Whether bytes are held behind a gap.
    pub(super) fn waits(&self) -> bool {
        !self.there.is_empty()
    }

    /// Returns the number of bytes held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the receiver acknowledged bytes that are missing here: they were sent but not
    /// captured.
    pub(super) fn hole_is_acknowledged(&self, ack: u32) -> bool {
        self.waits() && self.next.is_some_and(|next| ack.wrapping_sub(next).cast_signed() > 0)
    }

    /// Gives up the first gap and passes on the bytes behind it.
    pub(super) fn give_up_hole(&mut self, give: &mut dyn FnMut(Piece<'_>)) {
        let Some((hole, _)) = self.there.iter_data(0).next() else { return };
        give(Piece::Missing(hole as u64));
        // With the gap marked as filled, the front covers the gap and the data behind it.
        let ready = self.there.add_then_remove_front(0, hole).unwrap_or(hole);
        self.held.drain(..hole.min(self.held.len()));
        self.advance(hole);
        self.give_held(ready - hole, give);
    }

    /// Passes on all held bytes at the end of the stream.
    pub(super) fn finish(&mut self, give: &mut dyn FnMut(Piece<'_>)) {
        while self.waits() {
            self.give_up_hole(give);
        }
    }

    /// Passes on the first `ready` held bytes.
    fn give_held(&mut self, ready: usize, give: &mut dyn FnMut(Piece<'_>)) {
        if ready == 0 {
            return;
        }
        give(Piece::Data(&self.held[..ready]));
        self.held.drain(..ready);
        self.advance(ready);
    }

    fn advance(&mut self, bytes: usize) {
        // Sequence numbers wrap, so only the low 32 bits count.
        #[expect(clippy::cast_possible_truncation, reason = "sequence numbers are modulo 2^32")]
        let step = bytes as u32;
        self.next = self.next.map(|next| next.wrapping_add(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output: bytes as text, missing ones as `-`.
    fn stream(first: u32, segments: &[(u32, &str)]) -> String {
        let mut out = String::new();
        let mut give = |piece: Piece<'_>| match piece {
            Piece::Data(bytes) => out.push_str(std::str::from_utf8(bytes).unwrap()),
            Piece::Missing(n) => out.extend((0..n).map(|_| '-')),
        };
        let mut reassembly = Reassembly::new();
        reassembly.begin(first);
        for (seq, bytes) in segments {
            reassembly.add(first.wrapping_add(*seq), bytes.as_bytes(), &mut give);
        }
        reassembly.finish(&mut give);
        assert_eq!(reassembly.held(), 0);
        out
    }

    #[test]
    fn reordered_segments_give_the_stream_once() {
        for first in [0, 7, u32::MAX - 2] {
            assert_eq!(stream(first, &[(0, "abc"), (3, "def")]), "abcdef");
            assert_eq!(stream(first, &[(3, "def"), (0, "abc")]), "abcdef");
            assert_eq!(stream(first, &[(4, "ef"), (2, "cd"), (6, "gh"), (0, "ab")]), "abcdefgh");
        }
    }

    #[test]
    fn retransmissions_give_nothing_new() {
        assert_eq!(stream(9, &[(0, "abc"), (0, "abc"), (3, "def"), (2, "cd")]), "abcdef");
        assert_eq!(stream(9, &[(0, "abc"), (1, "bcdef"), (0, "abcdefg")]), "abcdefg");
        assert_eq!(stream(9, &[(4, "ef"), (2, "cdefg"), (0, "abc"), (0, "ab")]), "abcdefg");
    }

    #[test]
    fn missing_segments_leave_gaps() {
        assert_eq!(stream(1, &[(0, "ab"), (4, "ef"), (8, "ij")]), "ab--ef--ij");
        assert_eq!(stream(1, &[(2, "cd")]), "--cd");
    }

    #[test]
    fn excess_gaps_give_up_the_first() {
        let segments: Vec<_> = (1..100).map(|i| (2 * i, "x")).collect();
        let expected = "--x".to_owned() + &"-x".repeat(98);
        assert_eq!(stream(5, &segments), expected);
    }

    #[test]
    fn distant_segment_is_a_gap() {
        let mut missing = 0;
        let mut reassembly = Reassembly::new();
        reassembly.begin(0);
        reassembly.add(1 << 30, b"x", &mut |piece| {
            if let Piece::Missing(n) = piece {
                missing += n;
            }
        });
        assert_eq!((missing, reassembly.held()), (1 << 30, 0));
    }
}
