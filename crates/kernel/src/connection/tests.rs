//! Reading and writing over a real socket.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use dal::drivers::openflow::framing::cut;

use super::*;
use crate::control::Plain;
use crate::memory::Memory;

/// A worker's buffer, for plain TCP, may be as small as a test likes.
fn pair() -> (Connection, TcpStream) {
    let entrance = Entrance { plain: Plain::Loopback, tls: None };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, address) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    (Connection::new(socket, address, &entrance, &Memory::new(0), Instant::now()), peer)
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
    assert!(matches!(connection.read(&mut buffer, usize::MAX), Err(Broken::NoKeys)));
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

#[test]
fn switch_that_does_not_read_fills_up_and_loses_nothing_until_it_is_hopeless() {
    let (mut connection, mut peer) = pair();
    let chunk: Vec<u8> = (0..=255).collect();
    let mut written = 0;
    while !connection.is_hopeless() {
        connection.out.extend_from_slice(&chunk);
        written += chunk.len();
        connection.flush().unwrap();
    }
    assert!(connection.is_full(0));
    let mut got = vec![0; 1 << 16];
    let mut read = 0;
    while read < written {
        let n = peer.read(&mut got).unwrap();
        for (at, byte) in got[..n].iter().enumerate() {
            assert_eq!(usize::from(*byte), (read + at) % 256);
        }
        read += n;
        connection.flush().unwrap();
    }
    assert!(connection.flush().unwrap());
    assert!(connection.out.is_empty());
}
