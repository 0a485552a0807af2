//! The two interfaces through which the measured traffic enters and leaves the switch.
//!
//! Each has two packet sockets (packet(7)): one sends, the other captures in both directions. The kernel stamps a captured
//! frame when it leaves for the driver or arrives from it, as for tcpdump. So a delay between two frames contains
//! neither system calls nor the scheduling of this process.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind,
    recvmsg, send, setsockopt, socket, sockopt,
};
use openflow::{MacAddr, PortNo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::Stamp;
use super::probe::{Frames, Probe};

/// Size of the capture buffers, in bytes: about 20,000 small frames, while this process does not run.
const CAPTURE_BUFFER: usize = 16 << 20;

/// Value of `sll_pkttype` for a frame that leaves (`PACKET_OUTGOING`, packet(7)).
const OUTGOING: u8 = 4;

/// Room for the control messages of a packet: its stamp.
const CONTROL: usize = 128;

/// Number of stamps of frames without an arrival that are kept.
const MAX_UNDER_WAY: usize = 1 << 20;

/// An end of the data path.
#[derive(Debug)]
struct Interface {
    index: usize,
    sender: OwnedFd,
    capture: OwnedFd,
}

/// A captured frame of the run.
#[derive(Debug, Clone, Copy)]
struct Captured {
    probe: Probe,
    outgoing: bool,
    at: Stamp,
}

impl Interface {
    fn open(name: &str, address: LinkAddr) -> anyhow::Result<Self> {
        let open = |protocol: Option<SockProtocol>| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, protocol);
            socket.context("cannot open a packet socket; that requires root or CAP_NET_RAW")
        };
        let (sender, capture) = (open(None)?, open(Some(SockProtocol::EthAll))?);
        setsockopt(&capture, sockopt::ReceiveTimestampns, &true)
            .context("cannot have the kernel stamp packets")?;
        // Beyond the system's limit with CAP_NET_ADMIN only; without it the buffer is as large as allowed.
        if setsockopt(&capture, sockopt::RcvBufForce, &CAPTURE_BUFFER).is_err() {
            setsockopt(&capture, sockopt::RcvBuf, &CAPTURE_BUFFER)?;
        }
        for fd in [&sender, &capture] {
            // The address has protocol 0, with which a socket keeps its own.
            bind(fd.as_raw_fd(), &address)
                .with_context(|| format!("cannot use the interface {name}"))?;
        }
        Ok(Self { index: address.ifindex(), sender, capture })
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        loop {
            match send(self.sender.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT) {
                Ok(_) => return Ok(()),
                // The queue of the interface is full for a moment.
                Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ENOBUFS) => {
                    std::thread::sleep(Duration::from_micros(50));
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the next captured frame of `frames` or `back`; `None` if there is none now.
    fn next(&self, frames: &[&Frames; 2]) -> io::Result<Option<Captured>> {
        loop {
            let (mut bytes, mut control) = ([0; 128], [0; CONTROL]);
            let mut into = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let received =
                recvmsg::<LinkAddr>(self.capture.as_raw_fd(), &mut into, Some(&mut control), flags);
            let message = match received {
                Ok(message) => message,
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let stamp = message.cmsgs().ok().and_then(|mut all| {
                all.find_map(|it| match it {
                    ControlMessageOwned::ScmTimestampns(stamp) => Some(Stamp::from(stamp)),
                    _ => None,
                })
            });
            let (address, size) = (message.address, message.bytes);
            let Some((at, address)) = stamp.zip(address) else { continue };
            if address.ifindex() != self.index {
                continue; // captured before the socket was bound
            }
            let outgoing = address.pkttype() == OUTGOING;
            let seen = bytes.get(..size).unwrap_or(&bytes);
            if let Some(probe) = frames.iter().find_map(|frames| frames.recognise(seen)) {
                return Ok(Some(Captured { probe, outgoing, at }));
            }
        }
    }
}

/// Which way a frame takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the first interface through the switch to the second.
    Forth,
    /// From the second to the first.
    Back,
}

/// A frame that left the switch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The frame.
    pub(super) probe: Probe,
    /// Its way.
    pub(super) way: Way,
    /// When it was sent, if the capture of the sending side has it.
    pub(super) sent: Option<Stamp>,
    /// When it arrived.
    pub(super) arrived: Stamp,
}

impl Arrival {
    /// Returns the delay in microseconds, if both ends were stamped.
    pub(super) fn delay_us(&self) -> Option<f64> {
        self.sent.map(|sent| self.arrived.us_since(sent))
    }
}

/// Both interfaces; see the module's documentation.
#[derive(Debug)]
pub(super) struct DataPath {
    ends: [Interface; 2],
    frames: [Frames; 2],
    /// When frames left that have not arrived.
    under_way: HashMap<(bool, Probe), Stamp>,
    arrived: VecDeque<Arrival>,
    /// The switch's ports behind the interfaces.
    ports: [PortNo; 2],
}

impl DataPath {
    /// Opens two interfaces for the frames of a run.
    ///
    /// # Errors
    /// An interface does not exist, is no Ethernet interface, or packet sockets are not permitted.
    pub(super) fn open(names: [&str; 2], run: u32, size: usize) -> anyhow::Result<Self> {
        if names[0] == names[1] {
            bail!("both ends of the data path are {}; name two interfaces", names[0]);
        }
        let [first, second] = names.map(link_address);
        let (first, second) = (first?, second?);
        let [mac_1, mac_2] = [first, second].map(|it| MacAddr(it.addr().unwrap_or_default()));
        Ok(Self {
            ends: [Interface::open(names[0], first)?, Interface::open(names[1], second)?],
            frames: [Frames::new(run, mac_1, mac_2, size), Frames::new(run, mac_2, mac_1, size)],
            under_way: HashMap::new(),
            arrived: VecDeque::new(),
            ports: [PortNo::ANY; 2],
        })
    }

    /// Returns the switch's ports: where frames on their way forth enter and leave.
    pub(super) fn ports(&self) -> [PortNo; 2] {
        self.ports
    }

    /// Sets the switch's ports.
    pub(super) fn set_ports(&mut self, ports: [PortNo; 2]) {
        self.ports = ports;
    }

    /// Returns the frames of a way.
    pub(super) fn frames(&self, way: Way) -> &Frames {
        &self.frames[index(way)]
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub(super) fn send(&mut self, way: Way, probe: Probe) -> io::Result<()> {
        let at = index(way);
        self.ends[at].send(self.frames[at].frame(probe))
    }

    /// Returns the captures, to wait for.
    pub(super) fn captures(&self) -> [BorrowedFd<'_>; 2] {
        [self.ends[0].capture.as_fd(), self.ends[1].capture.as_fd()]
    }

    /// Returns the next frame that left the switch; `None` if there is none now.
    ///
    /// # Errors
    /// An interface is gone.
    pub(super) fn arrival(&mut self) -> io::Result<Option<Arrival>> {
        if let Some(arrival) = self.arrived.pop_front() {
            return Ok(Some(arrival));
        }
        // The kernel captures a frame that leaves before `send` returns, so its stamp is there.
        for at in [0, 1] {
            self.read(at)?;
        }
        Ok(self.arrived.pop_front())
    }

    /// Reads the capture of an end, and gives the arrivals the stamps of their departure.
    fn read(&mut self, at: usize) -> io::Result<()> {
        while let Some(captured) = self.ends[at].next(&[&self.frames[0], &self.frames[1]])? {
            // The second end sends what goes back, and receives what goes forth.
            let is_back = (at == 1) == captured.outgoing;
            if captured.outgoing {
                if self.under_way.len() >= MAX_UNDER_WAY {
                    self.under_way.clear();
                }
                self.under_way.insert((is_back, captured.probe), captured.at);
                continue;
            }
            self.arrived.push_back(Arrival {
                probe: captured.probe,
                way: if is_back { Way::Back } else { Way::Forth },
                sent: None,
                arrived: captured.at,
            });
        }
        let under_way = &mut self.under_way;
        for arrival in self.arrived.iter_mut().filter(|arrival| arrival.sent.is_none()) {
            arrival.sent = under_way.remove(&(arrival.way == Way::Back, arrival.probe));
        }
        Ok(())
    }

    /// Waits until a frame arrives, and discards others.
    ///
    /// # Errors
    /// An interface is gone.
    pub(super) fn wait_for(
        &mut self,
        way: Way,
        probe: Probe,
        until: Instant,
    ) -> io::Result<Option<Arrival>> {
        loop {
            while let Some(arrival) = self.arrival()? {
                if arrival.probe == probe && arrival.way == way {
                    return Ok(Some(arrival));
                }
            }
            if !wait(&self.captures(), until)? {
                return Ok(None);
            }
        }
    }

    /// Forgets all frames.
    ///
    /// # Errors
    /// An interface is gone.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        while self.arrival()?.is_some() {}
        self.under_way.clear();
        Ok(())
    }
}

fn index(way: Way) -> usize {
    match way {
        Way::Forth => 0,
        Way::Back => 1,
    }
}

/// Returns the link-layer address of an interface.
fn link_address(name: &str) -> anyhow::Result<LinkAddr> {
    let interfaces = getifaddrs().context("cannot list the interfaces")?;
    let mut named = interfaces.filter(|it| it.interface_name == name);
    let found = named.find_map(|it| it.address?.as_link_addr().copied());
    found.with_context(|| format!("there is no interface {name}; `ip link` lists them"))
}

/// Waits until one of the descriptors is readable; returns `false` at the time limit.
///
/// # Errors
/// The system call failed.
pub(super) fn wait(readable: &[BorrowedFd<'_>], until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout: Timespec = left.try_into().map_err(io::Error::other)?;
        let mut fds: Vec<PollFd<'_>> =
            readable.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}
