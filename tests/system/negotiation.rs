//! The first messages of a connection: version negotiation, or the reason for its failure (OpenFlow
//! 1.3.5 §6.3.1).

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use openflow::Header;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

/// Message types that answer a hello.
const ERROR: u8 = 1;
const FEATURES_REQUEST: u8 = 5;

/// Hellos of switches, and type and version of the message that follows Rosemary's hello.
const HELLOS: &[(&[u8], [u8; 2])] = &[
    // No version in common. They come first, as not all of many lines at once are logged.
    (&[0, 0, 0, 8, 0, 0, 0, 1], [ERROR, 1]),
    (&[2, 0, 0, 8, 0, 0, 0, 1], [ERROR, 2]),
    (&[3, 0, 0, 8, 0, 0, 0, 1], [ERROR, 3]),
    (&[6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x40], [ERROR, 6]),
    (&[7, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x80], [ERROR, 4]),
    // Versions above ours, without and with a bitmap.
    (&[7, 0, 0, 8, 0, 0, 0, 0x99], [FEATURES_REQUEST, 4]),
    (&[7, 0, 0, 16, 0, 0, 0, 0x99, 0, 1, 0, 8, 0, 0, 0, 0x92], [FEATURES_REQUEST, 4]),
    (&[7, 0, 0, 16, 0, 0, 0, 0x99, 0, 1, 0, 8, 0, 0, 0, 0x82], [FEATURES_REQUEST, 1]),
    (&[0xff, 0, 0, 8, 0, 0, 0, 0x99], [FEATURES_REQUEST, 4]),
    // The first byte of TLS as a version.
    (&[0x16, 0, 0, 8, 0, 0, 0, 0x99], [FEATURES_REQUEST, 4]),
    // Unknown elements, and invalid ones.
    (&[4, 0, 0, 16, 0, 0, 0, 1, 0, 9, 0, 8, 1, 2, 3, 4], [FEATURES_REQUEST, 4]),
    (&[4, 0, 0, 11, 0, 0, 0, 1, 0xff, 0xff, 0xff], [FEATURES_REQUEST, 4]),
];

#[test]
fn hello_of_any_version_is_answered() {
    in_a_lab(|lab| {
        let versions = ["--openflow", "1.0,1.3"];
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &versions)?;
        let probe = TcpStream::connect("127.0.0.1:6653")?.local_addr()?.to_string(); // and closed
        for (hello, expected) in HELLOS {
            let mut peer = TcpStream::connect("127.0.0.1:6653")?;
            peer.set_read_timeout(Some(SOON))?;
            peer.write_all(hello)?;
            let ours = message(&mut peer).with_context(|| format!("{hello:x?}"))?;
            ensure!(ours[1] == 0, "a hello comes first: {ours:x?}");
            let answer = message(&mut peer).with_context(|| format!("{hello:x?}"))?;
            ensure!([answer[1], answer[0]] == *expected, "{hello:x?}: {answer:x?}");
            if answer[1] == ERROR {
                ensure!(answer[8..12] == [0; 4], "HELLO_FAILED, INCOMPATIBLE: {answer:x?}");
                ensure!(peer.read(&mut [0; 8])? == 0, "then the connection is closed");
            }
        }
        let words = [
            "the switch offers 1.5, this controller speaks 1.0, 1.3",
            "ovs-vsctl clear bridge BRIDGE protocols",
        ];
        rosemary.wait_for_log(&words, SOON)?;
        ensure!(!rosemary.log().contains(&probe), "a probe is no event: {}", rosemary.log());
        Ok(())
    });
}

/// Reads the next message.
fn message(peer: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let (mut message, start) = (vec![0; Header::SIZE], Instant::now());
    peer.read_exact(&mut message)?;
    let size = usize::from(Header::decode(&message)?.length);
    message.resize(size, 0);
    match peer.read_exact(&mut message[Header::SIZE..]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            anyhow::bail!("cut after {:?}", start.elapsed())
        }
        result => Ok(result.map(|()| message)?),
    }
}
