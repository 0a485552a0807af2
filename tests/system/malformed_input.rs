//! Invalid input on the OpenFlow port does not affect connected switches.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cli::lab::Of;
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{INTERVAL, Net, SOON};

/// Time limit until a silent peer is disconnected; the handshake timeout is 10 s.
const PATIENCE: Duration = Duration::from_secs(30);

const HELLO: &[u8] = b"\x04\0\0\x08\0\0\0\x01";

#[test]
fn garbage_on_the_port_is_logged_and_the_switch_stays() {
    in_a_lab(|lab| {
        let mut net = Net::start(lab, Of::V1_3)?;
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
        let (kernel, epoch) = (net.status()?.programs.kernel, net.switch_status()?.epoch);

        // All at once, because some are detected only by their silence.
        let start = Instant::now();
        let mut peers = Vec::new();
        for (what, bytes) in garbage() {
            let mut peer = TcpStream::connect("127.0.0.1:6653")?;
            peer.set_read_timeout(Some(PATIENCE))?;
            let _ = peer.write_all(&bytes); // it may be closed while we still send
            peers.push((what, peer));
        }
        for (what, mut peer) in peers {
            let address = peer.local_addr()?.to_string();
            assert!(is_closed(&mut peer), "{what}: still open after {:?}", start.elapsed());
            let line = net.rosemary.wait_for_log(&[&address], SOON)?;
            println!("{what}, after {:?}: {line}", start.elapsed());
        }

        assert!(!net.rosemary.log().contains('\x1b'), "colours are for terminals");
        let status = net.status()?;
        assert_eq!(status.programs.kernel, kernel, "the kernel was not restarted");
        assert_eq!(net.switch_status()?.epoch, epoch, "on the same connection");
        assert_eq!(status.switches.map(|switches| switches.len()), Some(1));
        assert!(net.h1.ping(&net.h3, 10, INTERVAL)?.received > 0, "new flows work");
        Ok(())
    });
}

#[test]
fn silent_connections_block_no_switch() {
    in_a_lab(|lab| {
        let mut net = Net::start(lab, Of::V1_3)?;
        let (kernel, epoch) = (net.status()?.programs.kernel, net.switch_status()?.epoch);
        let peers = (0..200)
            .map(|_| TcpStream::connect("127.0.0.1:6653"))
            .collect::<Result<Vec<_>, _>>()?;
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
        assert_eq!(net.status()?.programs.kernel, kernel);
        assert_eq!(net.switch_status()?.epoch, epoch, "on the same connection");

        // Another switch can still connect in the meantime.
        let s2 = lab.switch("s2", Of::V1_0)?;
        let switch = net.rosemary.wait_for_switch(&s2)?;
        assert_eq!(switch.dpid, "00:00:00:00:00:00:00:02");
        drop(peers);
        Ok(())
    });
}

/// Descriptions of invalid inputs, and their bytes.
fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    // The same random bytes in every run (Numerical Recipes' generator).
    let random = |seed: u32| {
        let next = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(state.to_be_bytes()[0])
        };
        std::iter::repeat_with({
            let mut state = seed;
            move || next(&mut state).unwrap_or_default()
        })
        .take(4096)
    };
    // A record header and a TLS 1.2 ClientHello without content, enough to be recognised.
    let client_hello = [b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03".as_slice(), &[7; 32]];
    let after_hello = |bytes: &[u8]| [HELLO, bytes].concat();
    vec![
        ("random bytes", random(0x1234_5678).collect()),
        ("other random bytes", random(0x9abc_def0).collect()),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost:6653\r\n\r\n".to_vec()),
        ("a TLS ClientHello", client_hello.concat()),
        ("a hello, then random bytes", after_hello(&random(0xdead_beef).collect::<Vec<_>>())),
        ("a length of 0", after_hello(b"\x04\x05\0\0\0\0\0\x02")),
        ("a length below 8", after_hello(b"\x04\x05\0\x07\0\0\0\x02")),
        ("a length of 0xffff and no more", after_hello(b"\x04\x05\xff\xff\0\0\0\x02")),
        ("nothing at all", Vec::new()),
        ("half a header", b"\x04\0\0".to_vec()),
    ]
}

/// Reads until the peer closes the connection; returns false on timeout.
fn is_closed(peer: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match peer.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
    false
}
