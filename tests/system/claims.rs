//! Two connections of one datapath: the one that lives stays, a dead one gives way.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cli::lab::{LabError, Rosemary};
use openflow::{
    Capabilities, Dpid, Features, Header, Hello, Kind, PortDescReply, Version, append, echo_reply,
};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

const OF: Version = Version::V1_3;
const DPID: &str = "00:00:00:00:00:00:00:2a";

/// A switch without a datapath, which answers what a controller asks.
struct Fake {
    socket: TcpStream,
    unread: Vec<u8>,
}

impl Fake {
    /// Connects and says hello.
    fn connect() -> io::Result<Self> {
        let mut socket = TcpStream::connect("127.0.0.1:6653")?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[OF]).encode(1, out)).expect("a hello");
        socket.write_all(&hello)?;
        Ok(Self { socket, unread: Vec::new() })
    }

    /// Answers what comes for a while. `false` once the connection is closed.
    fn answer_for(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut buffer = [0; 4096];
        while Instant::now() < end {
            match self.socket.read(&mut buffer) {
                Ok(0) => return false,
                Ok(size) => self.unread.extend_from_slice(&buffer[..size]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
            if self.answer().is_err() {
                return false;
            }
        }
        true
    }

    fn answer(&mut self) -> io::Result<()> {
        while let Ok(header) = Header::decode(&self.unread) {
            let size = usize::from(header.length);
            if self.unread.len() < size {
                break;
            }
            let message: Vec<u8> = self.unread.drain(..size).collect();
            let mut out = Vec::new();
            let said = match Kind::from_wire(OF, header.kind) {
                Ok(Kind::FeaturesRequest) => append(&mut out, |out| {
                    let features = Features {
                        dpid: Dpid(0x2a),
                        n_buffers: 0,
                        n_tables: 1,
                        auxiliary_id: 0,
                        capabilities: Capabilities(0),
                        actions: 0,
                        ports: Vec::new(),
                    };
                    features.encode(OF, header.xid, out)
                }),
                Ok(Kind::MultipartRequest) => {
                    append(&mut out, |out| PortDescReply::encode(&[], false, OF, header.xid, out))
                }
                Ok(Kind::EchoRequest) => append(&mut out, |out| echo_reply(&message, out)),
                _ => Ok(0),
            };
            said.expect("it can be said");
            self.socket.write_all(&out)?;
        }
        Ok(())
    }
}

/// The epoch of the datapath's connection.
fn epoch(rosemary: &mut Rosemary<'_>) -> Result<u32, LabError> {
    rosemary.wait_for("the datapath is connected", SOON, |report| {
        let switches = report.switches.as_ref()?;
        switches.iter().find(|switch| switch.dpid == DPID).map(|switch| switch.epoch)
    })
}

#[test]
fn second_connection_of_a_datapath_is_refused_while_the_first_lives_and_taken_when_it_does_not() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut first = Fake::connect()?;
        assert!(first.answer_for(Duration::from_millis(300)));
        let known = epoch(&mut rosemary)?;

        let mut second = Fake::connect()?;
        let refused = (0..100).any(|_| {
            assert!(first.answer_for(Duration::from_millis(30)), "the first stays");
            !second.answer_for(Duration::from_millis(30))
        });
        assert!(refused, "the first answered when it was asked");
        let line = rosemary.wait_for_log(&["is connected already"], SOON)?;
        println!("{line}");
        assert_eq!(epoch(&mut rosemary)?, known, "on the same connection");

        // Now the first says nothing more.
        let start = Instant::now();
        let mut third = Fake::connect()?;
        let taken = (0..200).any(|_| {
            assert!(third.answer_for(Duration::from_millis(50)), "the third waits");
            epoch(&mut rosemary).is_ok_and(|epoch| epoch != known)
        });
        assert!(taken, "the first gave way");
        println!("the dead connection gave way after {:?}", start.elapsed());
        Ok(())
    });
}
