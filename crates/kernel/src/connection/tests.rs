//! Reading and writing over a real socket.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use dal::drivers::openflow::OpenFlow;
use dal::drivers::openflow::framing::cut;
use dal::{Driver as _, Timing};

use super::*;
use crate::ids::WorkerId;
use crate::pool::idle;
use crate::tls::{CLIENT_HELLO, TLS_MAJOR};
use control::kernel::PlainTcp;

/// A worker's buffer, for plain TCP, may be as small as a test likes.
pub(super) fn pair() -> (Connection, TcpStream) {
    let transport = TransportPolicy { plain: PlainTcp::Loopback, tls: None };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, address) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    let session = OpenFlow::default().open(Instant::now(), Timing::default());
    let pool = idle(1);
    let guard = pool.load_guard(WorkerId(0));
    (Connection::new((socket, address), session, &transport, &pool, guard), peer)
}

fn read(connection: &mut Connection, buffer: &mut [u8]) -> Input {
    for _ in 0..1000 {
        match connection.read(buffer, usize::MAX).unwrap() {
            Input::Nothing => std::thread::sleep(Duration::from_millis(1)),
            input => return input,
        }
    }
    Input::Nothing
}

#[test]
fn hello_that_begins_as_tls_does_is_plain() {
    let (mut connection, mut peer) = pair();
    let mut buffer = [0; 64];
    peer.write_all(&[CLIENT_HELLO, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    assert_eq!(read(&mut connection, &mut buffer), Input::Bytes { size: 8, all: true });
    let (mut connection, mut peer) = pair();
    peer.write_all(&[CLIENT_HELLO, TLS_MAJOR]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(matches!(connection.read(&mut buffer, usize::MAX), Err(ReadError::NoKeys)));
}

#[test]
fn message_cut_between_two_reads_is_put_together() {
    let (mut connection, mut peer) = pair();
    let mut buffer = [0; 64];
    peer.write_all(&[4, 2, 0, 10, 0]).unwrap();
    assert_eq!(read(&mut connection, &mut buffer), Input::Bytes { size: 5, all: true });
    assert_eq!(cut(&buffer[..5]), Ok(None));
    connection.keep(&buffer[..5], true, Instant::now());
    peer.write_all(&[0, 0, 1, 8, 9]).unwrap();
    assert_eq!(read(&mut connection, &mut buffer), Input::Bytes { size: 10, all: true });
    assert_eq!(buffer[..10], [4, 2, 0, 10, 0, 0, 0, 1, 8, 9]);
    drop(peer);
    assert_eq!(read(&mut connection, &mut buffer), Input::End);
}
