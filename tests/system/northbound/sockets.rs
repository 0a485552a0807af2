//! Sockets that carry events count as connections until they end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rosemary_tests::in_a_lab_for;
use rosemary_tests::net::SOON;

use super::start;

const UPGRADE: &[u8] = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Opens a WebSocket over the Unix socket; `None` if it is refused.
fn open() -> Option<UnixStream> {
    let mut stream = UnixStream::connect("/run/rosemary/api.sock").ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(UPGRADE).ok()?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).ok()?;
    (&begin == b"HTTP/1.1 101").then_some(stream)
}

#[test]
fn web_sockets_are_bounded_and_their_end_makes_room() {
    in_a_lab_for(Duration::from_secs(120), |lab| {
        let _rosemary = start(lab)?;
        let open_ones: Vec<_> = (0..280).map_while(|_| open()).collect();
        println!("{} WebSockets are open", open_ones.len());
        ensure!(open_ones.len() == 256, "{}", open_ones.len());
        drop(open_ones);
        lab.wait_for("there is room again", SOON, |_| Ok(open().map(|_| ())))?;
        // A frame that is longer than any message of a client ends the connection as soon as its length has arrived.
        for length in [1_025, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut stream = open().context("a WebSocket")?;
            let mut frame = vec![0x82, 0xff];
            frame.extend(length.to_be_bytes());
            frame.extend([0; 4]);
            stream.write_all(&frame)?;
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            let is_reset = ended.as_ref().is_err_and(|it| it.kind() == ErrorKind::ConnectionReset);
            ensure!(ended.is_ok() || is_reset, "{length}: {ended:?}, after {} bytes", rest.len());
        }
        Ok(())
    });
}
