//! Reads pcap and pcapng captures and extracts OpenFlow messages from their TCP connections.
//!
//! ```text
//! file -> packets (pcap-parser) -> segments (openflow::ip, packet.rs) -> streams (reassembly.rs,
//! one per direction, chosen by connections.rs) -> messages (../framing.rs)
//! ```
//!
//! A file of any size is read in one pass with bounded memory: one packet, the bytes behind gaps in
//! the streams, and an incomplete message per direction.

mod connections;
mod packet;
mod reassembly;
mod time;

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

use super::framing::Frame;
use connections::Connections;
pub(super) use connections::Ends;
use packet::Packet;
pub(super) use time::Time;

/// Initial and maximum size of the packet buffer; no captured packet is larger.
const BUFFER_SIZE: usize = 256 << 10;
const MAX_BUFFER_SIZE: usize = 16 << 20;
/// Maximum number of interfaces in a pcapng file.
const MAX_INTERFACES: usize = 4096;

/// The capture file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Pcap,
    PcapNg,
}

/// Statistics and problems of a whole capture.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) packets: u64,
    pub(super) connections: u64,
    /// Number of IP fragments, which are ignored.
    pub(super) fragments: u64,
    /// Number of packets with an unsupported link type, and the last such type.
    pub(super) unknown_link: Option<(u64, i32)>,
    /// Why reading stopped before the end of the file.
    pub(super) broken: Option<String>,
}

/// Receives frames with time and endpoints. An error ends the reading.
pub(super) type Give<'a> = &'a mut dyn FnMut(Time, Ends, Frame<'_>) -> io::Result<()>;

/// Reads a whole capture.
///
/// # Errors
/// The error of `give`. Problems of the file are in the summary.
pub(super) fn read(
    format: Format,
    ports: &[u16],
    mut input: impl Read,
    give: Give<'_>,
) -> io::Result<Summary> {
    let mut reading = Reading {
        connections: Connections::new(ports),
        summary: Summary::default(),
        interfaces: Vec::new(),
        time: Time::default(),
    };
    let head = read_head(format, &mut input)?;
    let failure = Rc::new(RefCell::new(None));
    let input = head.as_slice().chain(Noting { input, failure: failure.clone() });
    let opened = match format {
        Format::Pcap => LegacyPcapReader::new(BUFFER_SIZE, input)
            .map(|mut reader| reading.run(&mut reader, give)),
        Format::PcapNg => {
            PcapNGReader::new(BUFFER_SIZE, input).map(|mut reader| reading.run(&mut reader, give))
        }
    };
    match opened {
        Ok(run) => run?,
        Err(error) => reading.summary.broken = Some(explain(&error).to_owned()),
    }
    let mut outcome = Ok(());
    let time = reading.time;
    reading.connections.finish(&mut |ends, frame| {
        if outcome.is_ok() {
            outcome = give(time, ends, frame);
        }
    });
    outcome?;
    reading.summary.connections = reading.connections.seen;
    if let (Some(broken), Some(error)) = (&mut reading.summary.broken, failure.take()) {
        *broken = format!("{broken}: {error}");
    }
    Ok(reading.summary)
}

/// Keeps the error of its input: the parsers drop its text.
struct Noting<R> {
    input: R,
    failure: Rc<RefCell<Option<String>>>,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.input.read(out).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.failure.replace(Some(error.to_string()));
            }
        })
    }
}

/// An interface of a pcapng file.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Linktype,
    /// Time units per second, and seconds to add.
    resolution: u64,
    offset: i64,
}

struct Reading {
    connections: Connections,
    summary: Summary,
    /// The interfaces; a pcap file has exactly one.
    interfaces: Vec<Interface>,
    time: Time,
}

impl Reading {
    fn run(&mut self, reader: &mut dyn PcapReaderIterator, give: Give<'_>) -> io::Result<()> {
        let mut size = BUFFER_SIZE;
        loop {
            let wanted = match reader.next() {
                Ok((taken, block)) => {
                    self.block(&block, give)?;
                    drop(block);
                    reader.consume(taken);
                    continue;
                }
                Err(PcapError::Eof) => return Ok(()),
                Err(PcapError::Incomplete(_)) => size,
                Err(PcapError::BufferTooSmall) if size < MAX_BUFFER_SIZE => size * 2,
                Err(error) => {
                    self.summary.broken = Some(explain(&error).to_owned());
                    return Ok(());
                }
            };
            if wanted > size {
                size = wanted;
                reader.grow(size);
            }
            if let Err(error) = reader.refill() {
                self.summary.broken = Some(explain(&error).to_owned());
                return Ok(());
            }
        }
    }

    fn block(&mut self, block: &PcapBlockOwned<'_>, give: Give<'_>) -> io::Result<()> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                /// The upper bits say whether frames end with a checksum.
                const LINK_TYPE: i32 = 0x03ff_ffff;
                let link = Linktype(header.network.0 & LINK_TYPE);
                let resolution =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.interfaces = vec![Interface { link, resolution, offset: 0 }];
                Ok(())
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(&interface) = self.interfaces.first() else { return Ok(()) };
                let second = u64::from(packet.ts_sec);
                let units = second * interface.resolution + u64::from(packet.ts_usec);
                self.time = Time::new(units, interface.resolution, 0);
                self.packet(interface.link, packet.data, give)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(found)) => {
                if self.interfaces.len() < MAX_INTERFACES {
                    self.interfaces.push(Interface {
                        link: found.linktype,
                        resolution: found.ts_resolution().unwrap_or(1_000_000),
                        offset: found.ts_offset(),
                    });
                }
                Ok(())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let index = usize::try_from(packet.if_id).unwrap_or(usize::MAX);
                let Some(&interface) = self.interfaces.get(index) else { return Ok(()) };
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                self.time = Time::new(units, interface.resolution, interface.offset);
                let size = usize::try_from(packet.caplen).unwrap_or(usize::MAX);
                self.packet(interface.link, packet.data.get(..size).unwrap_or(packet.data), give)
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                // Simple packet blocks have no time; use that of the previous packet.
                let Some(&interface) = self.interfaces.first() else { return Ok(()) };
                let size = usize::try_from(packet.origlen).unwrap_or(usize::MAX);
                self.packet(interface.link, packet.data.get(..size).unwrap_or(packet.data), give)
            }
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    fn packet(&mut self, link: Linktype, packet: &[u8], give: Give<'_>) -> io::Result<()> {
        self.summary.packets += 1;
        if !packet::is_known(link) {
            let count = self.summary.unknown_link.map_or(0, |(count, _)| count);
            self.summary.unknown_link = Some((count + 1, link.0));
            return Ok(());
        }
        let segment = match packet::look(link, packet) {
            Packet::Tcp(segment) => segment,
            Packet::Fragment => {
                self.summary.fragments += 1;
                return Ok(());
            }
            Packet::Other => return Ok(()),
        };
        let mut outcome = Ok(());
        let time = self.time;
        self.connections.add(&segment, &mut |ends, frame| {
            if outcome.is_ok() {
                outcome = give(time, ends, frame);
            }
        });
        outcome
    }
}

/// Reads the file's header, which the parsers require completely in their first read.
fn read_head(format: Format, input: &mut impl Read) -> io::Result<Vec<u8>> {
    /// Limit of the section header; 28 bytes without options.
    const MAX_SECTION_HEADER: u32 = 64 << 10;
    let mut head = Vec::new();
    let mut read = |head: &mut Vec<u8>, size: u32| {
        let left = u64::from(size).saturating_sub(head.len() as u64);
        input.take(left).read_to_end(head).map(drop)
    };
    match format {
        Format::Pcap => read(&mut head, 24)?,
        Format::PcapNg => {
            read(&mut head, 12)?;
            if let Some(&[_, _, _, _, a, b, c, d, order, ..]) = head.get(..12) {
                let length = [a, b, c, d];
                let little = order == 0x4d;
                let length =
                    if little { u32::from_le_bytes(length) } else { u32::from_be_bytes(length) };
                read(&mut head, length.min(MAX_SECTION_HEADER))?;
            }
        }
    }
    Ok(head)
}

fn explain<I>(error: &PcapError<I>) -> &'static str {
    match error {
        PcapError::UnexpectedEof | PcapError::Incomplete(_) | PcapError::Eof => {
            "the capture ends inside a packet; it is truncated or still being written"
        }
        PcapError::BufferTooSmall => "a packet of the capture claims to be larger than 16 MiB",
        PcapError::ReadError => "cannot read the rest of the capture",
        _ => "the capture is damaged here; the rest cannot be read",
    }
}
