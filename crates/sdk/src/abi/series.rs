//! Many flow-mods that differ in a pair of hosts and their ports alone, said as one and what differs.
//!
//! ```text
//! 0            80 (OpenFlow 1.0) or 104 (1.3)
//! +------------+-----------+-----------+----
//! | flow-mod   | blanks    | blanks    | ...       its match: in-port, destination, source; its action: output
//! +------------+-----------+-----------+----
//!              0         4        8           12        18        24
//! blanks:      +---------+--------+-----------+---------+---------+
//!              | in_port | output | buffer_id | eth_dst | eth_src |
//!              +---------+--------+-----------+---------+---------+
//! ```
//!
//! Numbers are in the machine's byte order, which is little endian; the flow-mod is raw OpenFlow. What stands in the
//! flow-mod's own blanks means nothing. Its transaction id is that of the first; those
//! of the others count up.

use std::ops::Range;

use openflow::{Blanks, FlowModTemplate, Header, MacAddr, PortNo};

/// Bytes of the blanks of one flow-mod.
pub const BLANKS_SIZE: usize = 24;

/// Most flow-mods in a series.
pub const MAX_SERIES: usize = 64;

/// The number of no buffer.
const NO_BUFFER: u32 = u32::MAX;

/// Blanks, as in a series. Written field by field, and read so: nobody puts them together from bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Written {
    in_port: u32,
    output: u32,
    buffer_id: u32,
    eth_dst: [u8; 6],
    eth_src: [u8; 6],
}

const _: () = assert!(size_of::<Written>() == BLANKS_SIZE, "no padding");

impl From<&Blanks> for Written {
    #[inline]
    fn from(blanks: &Blanks) -> Self {
        Self {
            in_port: blanks.in_port.0.to_le(),
            output: blanks.output.0.to_le(),
            buffer_id: blanks.buffer_id.unwrap_or(NO_BUFFER).to_le(),
            eth_dst: blanks.eth_dst.0,
            eth_src: blanks.eth_src.0,
        }
    }
}

/// The blanks of a flow-mod in a series.
#[inline]
fn read(bytes: &[u8; BLANKS_SIZE]) -> Blanks {
    let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("it is inside"));
    let address = |at: usize| MacAddr(*bytes[at..].first_chunk().expect("it is inside"));
    let buffer_id = number(8);
    Blanks {
        in_port: PortNo(number(0)),
        eth_dst: address(12),
        eth_src: address(18),
        buffer_id: (buffer_id != NO_BUFFER).then_some(buffer_id),
        output: PortNo(number(4)),
    }
}

/// A series, as it came from an application.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    template: FlowModTemplate,
    first: u32,
    blanks: &'a [[u8; BLANKS_SIZE]],
}

impl<'a> Series<'a> {
    /// Where the blanks of `count` flow-mods begin in so many bytes; `None` if there are not as many.
    pub fn blanks_at(size: usize, count: u32) -> Option<usize> {
        size.checked_sub(usize::try_from(count).ok()?.checked_mul(BLANKS_SIZE)?)
    }

    /// Reads the series of `count` flow-mods that `said` is; `None` if it is none.
    pub fn read(said: &'a [u8], count: u32) -> Option<Self> {
        if count == 0 || count as usize > MAX_SERIES {
            return None;
        }
        let (flow_mod, blanks) = said.split_at_checked(Self::blanks_at(said.len(), count)?)?;
        let template = FlowModTemplate::of_message(flow_mod)?;
        let first = Header::decode(flow_mod).ok()?.xid;
        Some(Self { template, first, blanks: blanks.as_chunks().0 })
    }

    /// How many flow-mods it is.
    #[inline]
    pub fn len(&self) -> usize {
        self.blanks.len()
    }

    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.blanks.is_empty()
    }

    /// Bytes of each.
    #[inline]
    pub fn size_of_each(&self) -> usize {
        self.template.message().len()
    }

    /// The transaction id that the application gave to the first; those of the others count up.
    #[inline]
    pub fn first_xid(&self) -> u32 {
        self.first
    }

    /// The buffer that one of them uses.
    pub fn buffer(&self, number: usize) -> Option<u32> {
        read(self.blanks.get(number)?).buffer_id
    }

    /// Whether its version has the ports of one.
    pub fn has_ports(&self, number: usize) -> bool {
        self.blanks.get(number).is_some_and(|blanks| self.template.has_ports(&read(blanks)))
    }

    /// Appends those with these numbers to `out`, with transaction ids that count up from `xid`, up to the first
    /// whose buffer may not be used, or which cannot be said in its version. Returns how many.
    #[inline]
    pub fn append(
        &self,
        numbers: Range<usize>,
        xid: u32,
        may_use: impl Fn(u32) -> bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let may = |blanks: &Blanks| blanks.buffer_id.is_none_or(&may_use);
        let each = self.blanks.get(numbers).unwrap_or_default().iter().map(read);
        self.template.append_all(each.take_while(may), xid, out)
    }

    /// One of them as if it had been sent alone; `None` if its version has not such a port, or there are not as
    /// many.
    pub fn message(&self, number: usize) -> Option<Vec<u8>> {
        let (blanks, xid) = self.one(number)?;
        self.encode(&blanks, xid)
    }

    /// The same for those who are told of it: where it has a port that its version has not stands port 0.
    pub fn quote(&self, number: usize) -> Option<Vec<u8>> {
        self.message(number).or_else(|| {
            let (blanks, xid) = self.one(number)?;
            let none = Blanks { in_port: PortNo(0), output: PortNo(0), ..blanks };
            self.encode(&none, xid)
        })
    }

    fn encode(&self, blanks: &Blanks, xid: u32) -> Option<Vec<u8>> {
        let mut message = Vec::with_capacity(self.size_of_each());
        (self.template.append_all([*blanks], xid, &mut message) == 1).then_some(message)
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are few")]
    fn one(&self, number: usize) -> Option<(Blanks, u32)> {
        Some((read(self.blanks.get(number)?), self.first.wrapping_add(number as u32)))
    }

    /// All of them, each as if it had been sent alone, but those that [`message`](Self::message) says cannot be.
    pub fn messages(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.len()).filter_map(|number| self.message(number))
    }
}

#[cfg(test)]
mod tests {
    use openflow::{FlowMod, Match, Version};

    use super::*;

    fn blanks(number: u8) -> Blanks {
        Blanks {
            in_port: PortNo(number.into()),
            eth_dst: MacAddr([2, 0, 0, 1, 2, number]),
            eth_src: MacAddr([4, 5, 6, 7, 8, number]),
            buffer_id: (number != 2).then_some(0x0102_0304),
            output: PortNo(0xffff_fffb),
        }
    }

    fn written(blanks: &Blanks) -> [u8; BLANKS_SIZE] {
        // SAFETY: four bytes three times, and twelve: no padding.
        unsafe { std::mem::transmute(Written::from(blanks)) }
    }

    #[test]
    fn series_is_read_as_what_was_said() {
        for version in [Version::V1_0, Version::V1_3] {
            let add = FlowMod::add(Match::new()).cookie(9);
            let template = FlowModTemplate::new(&add, version).unwrap();
            let mut said = template.message().to_vec();
            said[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
            for number in 1..=3 {
                let bytes = written(&blanks(number));
                assert_eq!(read(&bytes), blanks(number));
                said.extend_from_slice(&bytes);
            }
            let series = Series::read(&said, 3).unwrap();
            let mut expected = vec![0; series.size_of_each()];
            for (message, (number, xid)) in series.messages().zip((1..).zip([u32::MAX, 0, 1])) {
                template.fill(&blanks(number), xid, &mut expected).unwrap();
                assert_eq!(message, expected);
            }
            assert_eq!(series.messages().count(), 3);
            for (size, count) in [(said.len(), 2), (said.len(), 4), (said.len() - 1, 3), (3, 1)] {
                assert!(Series::read(&said[..size], count).is_none(), "{size} {count}");
            }
            assert!(Series::read(&said, u32::MAX).is_none());
        }
    }

    #[test]
    fn port_that_the_version_has_not_is_only_quoted() {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), Version::V1_0).unwrap();
        let mut said = template.message().to_vec();
        said.extend(written(&Blanks { output: PortNo(0x1_0000), ..blanks(1) }));
        said.extend(written(&blanks(3)));
        let series = Series::read(&said, 2).unwrap();
        assert_eq!((series.message(0), series.messages().count()), (None, 1));
        let quote = FlowMod::decode(&series.quote(0).unwrap()).unwrap().match_.to_string();
        assert_eq!(quote, "in_port=0,eth_dst=02:00:00:01:02:01,eth_src=04:05:06:07:08:01");
        assert_eq!((series.quote(1), series.quote(2)), (series.message(1), None));
    }

    #[test]
    fn whatever_bytes_come_each_message_is_an_add_of_a_pair() {
        let add = FlowMod::add(Match::new()).priority(7);
        for version in [Version::V1_0, Version::V1_3] {
            let template = FlowModTemplate::new(&add, version).unwrap();
            let whole = [template.message(), &[1; 3 * BLANKS_SIZE]].concat();
            let mut read = 0;
            for place in 0..whole.len() * 8 {
                let mut said = whole.clone();
                said[place / 8] ^= 1 << (place % 8);
                let Some(series) = Series::read(&said, 3) else { continue };
                read += 1;
                for message in series.messages() {
                    let Ok(flow_mod) = FlowMod::decode(&message) else { continue };
                    assert_eq!(flow_mod.command, openflow::FlowModCommand::Add);
                    assert_eq!(flow_mod.match_.fields().count(), 3);
                }
            }
            assert!(read > 3 * BLANKS_SIZE * 8, "{read}: whatever is in the blanks");
        }
    }
}
