//! Builds captures by hand, with late, repeated or lost packets of a TCP connection.

use std::net::SocketAddr;

/// The layer below IP.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Link {
    Ethernet,
    /// Ethernet with two VLAN tags.
    Tagged,
    /// `tcpdump -i any`, older and newer format.
    Cooked1,
    Cooked2,
    Raw,
}

impl Link {
    fn number(self) -> u16 {
        match self {
            Self::Ethernet | Self::Tagged => 1,
            Self::Cooked1 => 113,
            Self::Cooked2 => 276,
            Self::Raw => 101,
        }
    }

    fn head(self, ethertype: [u8; 2]) -> Vec<u8> {
        let macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        match self {
            Self::Ethernet => [&macs[..], &ethertype].concat(),
            Self::Tagged => [&macs[..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5], &ethertype].concat(),
            Self::Cooked1 => [&[0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0][..], &ethertype].concat(),
            Self::Cooked2 => [&ethertype[..], &[0; 18]].concat(),
            Self::Raw => Vec::new(),
        }
    }
}

/// Packets of a capture, one microsecond apart.
pub(crate) struct Packets {
    link: Link,
    packets: Vec<Vec<u8>>,
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Sequence number of the SYN.
    pub(crate) isn: u32,
}

impl Way {
    pub(crate) fn new(from: &str, to: &str, isn: u32) -> Self {
        Self { from: from.parse().unwrap(), to: to.parse().unwrap(), isn }
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;

impl Packets {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, packets: Vec::new() }
    }

    pub(crate) fn syn(&mut self, way: Way) -> &mut Self {
        self.segment(way, way.isn, 0, SYN, &[])
    }

    /// Adds bytes at this offset of the stream.
    pub(crate) fn bytes(&mut self, way: Way, at: u32, bytes: &[u8]) -> &mut Self {
        self.segment(way, way.isn.wrapping_add(1 + at), 0, ACK, bytes)
    }

    /// Adds an acknowledgement by the receiver of `way`.
    pub(crate) fn ack(&mut self, way: Way, bytes: u32) -> &mut Self {
        let back = Way { from: way.to, to: way.from, isn: 0 };
        self.segment(back, 1, way.isn.wrapping_add(1 + bytes), ACK, &[])
    }

    fn segment(&mut self, way: Way, seq: u32, ack: u32, flags: u8, bytes: &[u8]) -> &mut Self {
        let mut tcp = Vec::new();
        tcp.extend(way.from.port().to_be_bytes());
        tcp.extend(way.to.port().to_be_bytes());
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(bytes);
        let size = |head: usize| u16::try_from(head + tcp.len()).unwrap().to_be_bytes();
        let (ethertype, ip) = match (way.from, way.to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let [s0, s1] = size(20);
                let mut ip = vec![0x45, 0, s0, s1, 0, 0, 0, 0, 64, 6, 0, 0];
                ip.extend(from.ip().octets());
                ip.extend(to.ip().octets());
                ([8, 0], ip)
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                let [s0, s1] = size(0);
                let mut ip = vec![0x60, 0, 0, 0, s0, s1, 6, 64];
                ip.extend(from.ip().octets());
                ip.extend(to.ip().octets());
                ([0x86, 0xdd], ip)
            }
            mixed => panic!("{mixed:?} mix address families"),
        };
        self.packets.push([self.link.head(ethertype), ip, tcp].concat());
        self
    }

    /// Returns a pcap file in non-native byte order.
    pub(crate) fn pcap(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65535, self.link.number().into()] {
            file.extend(word.to_be_bytes());
        }
        for (packet, at) in self.packets.iter().zip(0_u32..) {
            let size = u32::try_from(packet.len()).unwrap();
            for word in [1_800_000_000, at, size, size] {
                file.extend(word.to_be_bytes());
            }
            file.extend(packet);
        }
        file
    }

    /// Returns a pcapng file: a section, an interface, the packets.
    pub(crate) fn pcapng(&self) -> Vec<u8> {
        let mut file = block(0x0a0d_0d0a, &{
            let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
            body.extend([1, 0, 0, 0]);
            body.extend([0xff; 8]);
            body
        });
        let mut interface = self.link.number().to_le_bytes().to_vec();
        interface.extend([0, 0, 0, 0, 4, 0]);
        file.extend(block(1, &interface));
        for (packet, at) in self.packets.iter().zip(0_u64..) {
            let time = 1_800_000_000_000_000 + at;
            let size = u32::try_from(packet.len()).unwrap().to_le_bytes();
            let mut body = vec![0; 4];
            body.extend(u32::try_from(time >> 32).unwrap().to_le_bytes());
            body.extend(u32::try_from(time & 0xffff_ffff).unwrap().to_le_bytes());
            body.extend(size);
            body.extend(size);
            body.extend(packet);
            file.extend(block(6, &body));
        }
        file
    }
}

/// Builds a block of a pcapng file.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let size = u32::try_from(12 + padded).unwrap().to_le_bytes();
    let mut block = [&kind.to_le_bytes()[..], &size, body].concat();
    block.resize(8 + padded, 0);
    block.extend(size);
    block
}
