//! One direction of a TCP connection: segments in, in any order and more than once; the stream
//! out, in order and once, with the places where bytes are missing.
//!
//! No reassembly crate could be used: what there is reads packets from a device, is licensed so
//! that it cannot be linked here, or has been left alone since its first release. So the part of
//! it that goes wrong, the book-keeping of which ranges are there, is that of a TCP stack in wide
//! use: `smoltcp`'s [`Assembler`]. Around it are the sequence numbers and the bytes.
//!
//! ```text
//!         next            held[0] is the byte at `next`
//!          v
//! ---given-|........|======|.....|===|
//!            hole 1  data   hole 2 data
//! ```

use smoltcp::storage::Assembler;

/// How far beyond a hole bytes are held; a hole with more behind it is given up.
const WINDOW: usize = 4 << 20;

/// A piece of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The next bytes.
    Data(&'a [u8]),
    /// This many bytes that were not captured come here.
    Missing(u64),
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// The sequence number of the next byte to give; `None` before the first segment.
    next: Option<u32>,
    /// Bytes from `next` on, of which those are there that `there` says.
    held: Vec<u8>,
    there: Assembler,
}

impl Reassembly {
    pub(super) fn new() -> Self {
        Self { next: None, held: Vec::new(), there: Assembler::new() }
    }

    /// The stream begins at this sequence number, which is the SYN's plus one.
    pub(super) fn begin(&mut self, first: u32) {
        self.next = Some(first);
    }

    /// Takes a segment's bytes and gives what is next in the stream.
    pub(super) fn add(&mut self, seq: u32, mut bytes: &[u8], give: &mut dyn FnMut(Piece<'_>)) {
        if bytes.is_empty() {
            return;
        }
        loop {
            let next = *self.next.get_or_insert(seq);
            let ahead = seq.wrapping_sub(next).cast_signed();
            let offset = usize::try_from(ahead).unwrap_or(0);
            if ahead < 0 {
                // Sent before: only what lies beyond `next` is new.
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
                self.give_up_hole(give); // more holes than are worth counting
            }
        }
    }

    /// Whether bytes wait behind a hole.
    pub(super) fn waits(&self) -> bool {
        !self.there.is_empty()
    }

    /// How many bytes are held for what is missing.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the receiver said that it has bytes which are missing here: they were sent, and
    /// not captured.
    pub(super) fn hole_is_acknowledged(&self, ack: u32) -> bool {
        self.waits() && self.next.is_some_and(|next| ack.wrapping_sub(next).cast_signed() > 0)
    }

    /// Gives up what is missing before the first bytes held, and gives those.
    pub(super) fn give_up_hole(&mut self, give: &mut dyn FnMut(Piece<'_>)) {
        let Some((hole, _)) = self.there.iter_data(0).next() else { return };
        give(Piece::Missing(hole as u64));
        // The hole filled, the front is the hole and the data behind it.
        let ready = self.there.add_then_remove_front(0, hole).unwrap_or(hole);
        self.held.drain(..hole.min(self.held.len()));
        self.advance(hole);
        self.give_held(ready - hole, give);
    }

    /// Gives all that is held; nothing more comes.
    pub(super) fn finish(&mut self, give: &mut dyn FnMut(Piece<'_>)) {
        while self.waits() {
            self.give_up_hole(give);
        }
    }

    /// Gives the first `ready` bytes held.
    fn give_held(&mut self, ready: usize, give: &mut dyn FnMut(Piece<'_>)) {
        if ready == 0 {
            return;
        }
        give(Piece::Data(&self.held[..ready]));
        self.held.drain(..ready);
        self.advance(ready);
    }

    fn advance(&mut self, bytes: usize) {
        // Sequence numbers wrap, so their low 32 bits are all there is to count.
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32 on purpose")]
        let step = bytes as u32;
        self.next = self.next.map(|next| next.wrapping_add(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came out: bytes as they are, missing ones as `-`.
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
    fn segments_in_any_order_give_the_stream_once() {
        for first in [0, 7, u32::MAX - 2] {
            assert_eq!(stream(first, &[(0, "abc"), (3, "def")]), "abcdef");
            assert_eq!(stream(first, &[(3, "def"), (0, "abc")]), "abcdef");
            assert_eq!(stream(first, &[(4, "ef"), (2, "cd"), (6, "gh"), (0, "ab")]), "abcdefgh");
        }
    }

    #[test]
    fn segments_sent_again_give_nothing_new() {
        assert_eq!(stream(9, &[(0, "abc"), (0, "abc"), (3, "def"), (2, "cd")]), "abcdef");
        assert_eq!(stream(9, &[(0, "abc"), (1, "bcdef"), (0, "abcdefg")]), "abcdefg");
        assert_eq!(stream(9, &[(4, "ef"), (2, "cdefg"), (0, "abc"), (0, "ab")]), "abcdefg");
    }

    #[test]
    fn missing_segments_leave_gaps_of_their_size() {
        assert_eq!(stream(1, &[(0, "ab"), (4, "ef"), (8, "ij")]), "ab--ef--ij");
        assert_eq!(stream(1, &[(2, "cd")]), "--cd");
    }

    #[test]
    fn more_holes_than_are_counted_give_up_the_first() {
        let segments: Vec<_> = (1..100).map(|i| (2 * i, "x")).collect();
        let expected = "--x".to_owned() + &"-x".repeat(98);
        assert_eq!(stream(5, &segments), expected);
    }

    #[test]
    fn segment_far_ahead_is_a_gap_and_takes_no_memory() {
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
