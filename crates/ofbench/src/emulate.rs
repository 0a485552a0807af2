//! Switches of a topology that connect to a controller and stay: for discovery, and for looking at
//! what a controller does with a network.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::connection::{BUFFER, Connection, Input, cut};
use crate::fabric::{Fabric, Output};
use crate::load::{Failure, Trouble};
use crate::tls::Tls;

/// Events taken from epoll at once.
const EVENTS: usize = 256;

/// How often it looks whether it is to stop.
const TICK: Duration = Duration::from_millis(100);

/// How long it waits before a switch connects again.
const AGAIN: Duration = Duration::from_secs(1);

/// A switch's connection.
#[derive(Debug)]
struct Line {
    connection: Option<Connection>,
    greeted: bool,
    watched: EventFlags,
    /// When to connect again, if there is no connection.
    again: Instant,
}

/// Where the switches connect, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The controller.
    pub controller: SocketAddr,
    /// How to connect by TLS, if so.
    pub tls: Option<&'a Tls>,
    /// When it is over, at the latest.
    pub until: Option<Instant>,
}

/// Runs the switches of `fabric` until `stop` is set or the time has come; `progress` is called some
/// times a second.
///
/// # Errors
/// [`Failure`]: no controller is there at first, or one that cannot be spoken with. A controller that
/// goes away later is waited for.
///
/// # Panics
/// Never; what epoll returns was given to it.
pub fn run(
    fabric: &mut Fabric,
    target: Target<'_>,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Fabric),
) -> Result<(), Failure> {
    let Target { controller: to, tls, until } = target;
    let system = |what| {
        move |why: rustix::io::Errno| Failure::new(Trouble::System { what, why: why.into() })
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
                    opened.map_err(|why| Failure::new(Trouble::NotThere { to, why }))?;
                line.watched = EventFlags::IN | EventFlags::OUT;
                let data = EventData::new_u64(which as u64);
                epoll::add(&epoll, connection.socket(), data, line.watched)
                    .map_err(system("cannot watch a socket"))?;
                fabric.hang_up(which);
                (line.connection, line.greeted) = (Some(connection), false);
            }
        }
        let ready = match epoll::wait(&epoll, &mut events, Some(&tick)) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(why) => return Err(system("cannot wait for sockets")(why)),
            Ok((ready, _)) => ready,
        };
        let mut output = Output::new();
        for event in ready {
            let which = usize::try_from(event.data.u64()).expect("it is an index of ours");
            let line = &mut lines[which];
            match line.serve(which, fabric, &mut buffer, &mut output) {
                Ok(()) => ever |= line.greeted,
                Err(Trouble::Broken { why, .. }) if !ever => {
                    return Err(Failure::new(Trouble::NotThere { to, why }));
                }
                Err(trouble @ (Trouble::Fault(_) | Trouble::NoOpenFlow(_))) => {
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
            // A controller that does not read is called again.
            let stuck = line.connection.as_ref().is_some_and(Connection::is_stuck);
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
        output: &mut Output,
    ) -> Result<(), Trouble> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let broken = |why| Trouble::Broken { when: "", why };
        if !self.greeted {
            connection.connected().map_err(broken)?;
            self.greeted = true;
            fabric.greet(which, connection.out());
        }
        match connection.read(buffer).map_err(broken)? {
            Input::Bytes(size) => {
                let rest = cut(&buffer[..size], |message| -> Result<(), Trouble> {
                    fabric.receive(which, message, output).map_err(Trouble::from)
                })?;
                connection.keep(rest);
            }
            Input::Nothing => {}
            Input::End => return Err(Trouble::Closed { said: String::new() }),
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
        wanted.set(EventFlags::OUT, !connection.is_drained());
        if wanted != self.watched {
            epoll::modify(epoll, connection.socket(), EventData::new_u64(which as u64), wanted)?;
            self.watched = wanted;
        }
        Ok(())
    }
}
