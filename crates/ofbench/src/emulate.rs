//! Connects the switches of a [`Fabric`] to a controller and keeps them connected.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::connection::{BUFFER, Connection, ReadResult, cut};
use crate::fabric::{Fabric, SwitchOutput};
use crate::load::{Failure, FailureKind};
use crate::tls::Tls;

/// Maximum number of events per epoll call.
const EVENTS: usize = 256;

/// Interval at which the stop flag is checked.
const TICK: Duration = Duration::from_millis(100);

/// Delay before a switch reconnects.
const AGAIN: Duration = Duration::from_secs(1);

/// The connection of one switch.
#[derive(Debug)]
struct Line {
    connection: Option<Connection>,
    greeted: bool,
    watched: EventFlags,
    /// When to reconnect, if there is no connection.
    again: Instant,
}

/// Where the switches connect, and until when.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The controller.
    pub controller: SocketAddr,
    /// TLS settings; `None` for plain TCP.
    pub tls: Option<&'a Tls>,
    /// When the run ends; `None` for never.
    pub until: Option<Instant>,
}

/// Runs the switches of `fabric` until `stop` is set or the deadline passes; calls `progress`
/// several times a second.
///
/// # Errors
/// [`Failure`] if no controller accepts the first connections, or if it violates the protocol.
/// Switches reconnect to a controller that disappears later.
///
/// # Panics
/// Never: every event's user data is an index that this function registered.
pub fn run(
    fabric: &mut Fabric,
    target: Target<'_>,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Fabric),
) -> Result<(), Failure> {
    let Target { controller: to, tls, until } = target;
    let system = |what| {
        move |why: rustix::io::Errno| Failure::new(FailureKind::System { what, why: why.into() })
    };
    let epoll =
        epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("cannot watch sockets"))?;
    let now = Instant::now();
    let line =
        |_| Line { connection: None, greeted: false, watched: EventFlags::empty(), again: now };
    let mut lines: Vec<Line> = (0..fabric.switches().len()).map(line).collect();
    let mut buffer = vec![0; BUFFER].into_boxed_slice();
    let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
    let tick: Timespec = TICK.try_into().expect("a tick is short");
    let mut ever = false;
    while !stop.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
        let now = Instant::now();
        for (which, line) in lines.iter_mut().enumerate() {
            if line.connection.is_none() && line.again <= now {
                let opened = Connection::open(to, tls);
                let connection =
                    opened.map_err(|why| Failure::new(FailureKind::Unreachable { to, why }))?;
                line.watched = EventFlags::IN | EventFlags::OUT;
                let data = EventData::new_u64(which as u64);
                epoll::add(&epoll, connection.socket(), data, line.watched)
                    .map_err(system("cannot watch a socket"))?;
                fabric.reset_switch(which);
                (line.connection, line.greeted) = (Some(connection), false);
            }
        }
        let ready = match epoll::wait(&epoll, &mut events, Some(&tick)) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(why) => return Err(system("cannot wait for sockets")(why)),
            Ok((ready, _)) => ready,
        };
        let mut output = SwitchOutput::new();
        for event in ready {
            let which = usize::try_from(event.data.u64()).expect("it is an index of ours");
            let line = &mut lines[which];
            match line.serve(which, fabric, &mut buffer, &mut output) {
                Ok(()) => ever |= line.greeted,
                Err(FailureKind::Broken { why, .. }) if !ever => {
                    return Err(Failure::new(FailureKind::Unreachable { to, why }));
                }
                Err(trouble @ (FailureKind::Fault(_) | FailureKind::NotOpenFlow(_))) => {
                    return Err(Failure::of(fabric.switches()[which].identity().dpid, trouble));
                }
                Err(_) => {
                    line.connection = None;
                    line.again = Instant::now() + AGAIN;
                }
            }
        }
        for (which, bytes) in output {
            if let Some(connection) = &mut lines[which].connection {
                connection.out().extend_from_slice(&bytes);
            }
        }
        for (which, line) in lines.iter_mut().enumerate() {
            // Disconnect from a controller that does not read; the switch reconnects later.
            let stuck = line.connection.as_ref().is_some_and(Connection::is_output_full);
            if stuck || line.flush(which, &epoll).is_err() {
                line.connection = None;
                line.again = Instant::now() + AGAIN;
            }
        }
        progress(fabric);
    }
    Ok(())
}

impl Line {
    fn serve(
        &mut self,
        which: usize,
        fabric: &mut Fabric,
        buffer: &mut [u8],
        output: &mut SwitchOutput,
    ) -> Result<(), FailureKind> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let broken = |why| FailureKind::Broken { when: "", why };
        if !self.greeted {
            connection.connected().map_err(broken)?;
            self.greeted = true;
            fabric.send_hello(which, connection.out());
        }
        match connection.read(buffer).map_err(broken)? {
            ReadResult::Bytes(size) => {
                let rest = cut(&buffer[..size], |message| -> Result<(), FailureKind> {
                    fabric.receive(which, message, output).map_err(FailureKind::from)
                })?;
                connection.keep(rest);
            }
            ReadResult::WouldBlock => {}
            ReadResult::Closed => return Err(FailureKind::Closed { last_message: String::new() }),
        }
        Ok(())
    }

    fn flush(&mut self, which: usize, epoll: &std::os::fd::OwnedFd) -> io::Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if !self.greeted {
            return Ok(());
        }
        connection.flush()?;
        let mut wanted = EventFlags::IN;
        wanted.set(EventFlags::OUT, !connection.is_output_empty());
        if wanted != self.watched {
            epoll::modify(epoll, connection.socket(), EventData::new_u64(which as u64), wanted)?;
            self.watched = wanted;
        }
        Ok(())
    }
}
