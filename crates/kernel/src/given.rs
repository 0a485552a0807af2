//! Which apps were given the packets that a switch keeps for us: only they may send them on
//! (design §8).

use crate::plan::Set;

/// Buffers of one connection of a switch, by number.
///
/// Switches number their buffers from a small range, so a place for the low bits of each number, and
/// as many places as the switch has buffers, keep those that can still be there.
#[derive(Debug)]
pub(crate) struct Given {
    /// Empty before the first.
    places: Vec<(u32, Set)>,
    /// One less than how many there may be, a power of two.
    mask: usize,
}

/// Places of a switch, at least and at most.
const LEAST: usize = 256;
const MOST: usize = 4096;

impl Given {
    /// Of a switch that says it has so many buffers.
    pub(crate) fn new(n_buffers: u32) -> Self {
        let most = usize::try_from(n_buffers).unwrap_or(MOST).clamp(LEAST, MOST);
        Self { places: Vec::new(), mask: most.next_power_of_two() - 1 }
    }

    /// A packet has come that the switch keeps under this number; these links get it, so far.
    #[inline]
    pub(crate) fn kept(&mut self, buffer: u32, links: Set) {
        if self.places.is_empty() {
            self.places = vec![(buffer, Set::EMPTY); self.mask + 1];
        }
        let place = self.place(buffer);
        self.places[place] = (buffer, links);
    }

    /// A link gets that packet.
    pub(crate) fn note(&mut self, buffer: u32, link: usize) {
        let place = self.place(buffer);
        if let Some((_, links)) = self.places.get_mut(place).filter(|(known, _)| *known == buffer) {
            *links = links.with(Set::of(link));
        }
    }

    /// Whether a link was given the packet that the switch keeps under this number.
    pub(crate) fn has(&self, buffer: u32, link: usize) -> bool {
        let known = self.places.get(self.place(buffer));
        known.is_some_and(|(known, links)| *known == buffer && links.has(link))
    }

    fn place(&self, buffer: u32) -> usize {
        buffer as usize & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_known_by_its_number_to_those_who_were_given_its_packet() {
        let mut given = Given::new(256);
        assert!(!given.has(5, 1));
        given.note(5, 1); // no such packet has come
        assert!(!given.has(5, 1));
        given.kept(5, Set::EMPTY);
        given.note(5, 1);
        given.note(5, 3);
        assert!(given.has(5, 1) && given.has(5, 3));
        assert!(!given.has(5, 2) && !given.has(5 + 256, 1));
        given.kept(5, Set::of(2));
        assert!(given.has(5, 2) && !given.has(5, 1), "another packet");
        given.note(5, 2);
        given.kept(5 + 256, Set::EMPTY);
        assert!(!given.has(5, 2), "its place was needed");
    }

    #[test]
    fn switch_may_say_anything_about_its_buffers() {
        for n_buffers in [0, 1, 257, u32::MAX] {
            let mut given = Given::new(n_buffers);
            given.kept(u32::MAX - 1, Set::EMPTY);
            given.note(u32::MAX - 1, 63);
            assert!(given.has(u32::MAX - 1, 63) && given.places.len() <= MOST);
        }
    }
}
