//! Creates sockets in a host's network namespace.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::thread;

use anyhow::Context as _;
use cli::lab::Host;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Creates a socket bound to an address of the host; a temporary thread enters the host's
/// namespace.
///
/// # Errors
/// The namespace cannot be entered, or the address is taken.
pub fn socket_on(host: &Host<'_>, address: &'static str, port: u16) -> anyhow::Result<UdpSocket> {
    let place = format!("/run/netns/{}", host.name());
    let made = thread::spawn(move || -> io::Result<UdpSocket> {
        let network = File::open(place)?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        UdpSocket::bind((address, port))
    });
    let made = made.join().ok().context("the thread does not panic")?;
    made.with_context(|| format!("no socket on {}", host.name()))
}
