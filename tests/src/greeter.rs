//! A host that apps reach through the broker: it expects a greeting and answers it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use anyhow::ensure;

/// How long an app may take to greet.
const PATIENCE: Duration = Duration::from_secs(10);

/// The host, at 127.0.0.1:7007 of the lab.
#[derive(Debug)]
pub struct Greeter(TcpListener);

impl Greeter {
    /// Listens.
    ///
    /// # Errors
    /// The port is taken.
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self(TcpListener::bind("127.0.0.1:7007")?))
    }

    /// Accepts the next connection, reads the line `hello` and answers `welcome`.
    ///
    /// # Errors
    /// The peer said something else, or nothing.
    pub fn welcome(&self) -> anyhow::Result<()> {
        let (mut peer, _) = self.0.accept()?;
        peer.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(peer.try_clone()?).read_line(&mut line)?;
        ensure!(line == "hello\n", "{line:?}");
        Ok(peer.write_all(b"welcome\n")?)
    }
}
