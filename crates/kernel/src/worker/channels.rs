//! What workers, each other and the server's thread say.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use sys::doorbell::{Doorbell, Ringer};

use crate::app_port::part::Part;
use crate::connection::Connection;
use crate::control::{AppId, Tuning};
use crate::flows;
use crate::policy::Policy;
use crate::pool::WorkerPool;
use crate::query::{AppCounters, SwitchStatus};

/// What is asked of a worker: [`Adopt`](Self::Adopt) by another, all else by the server's thread.
#[derive(Debug)]
pub enum Command {
    /// Use these rings for an app, instead of what it had; answered by [`WorkerEvent::Attached`].
    Attach {
        /// Which attempt it is.
        attempt: u64,
        /// Which app.
        app: AppId,
        /// Its name, for messages.
        name: String,
        /// Its rights, and its place among the apps.
        policy: Policy,
        /// The worker's part of the rings.
        part: Box<Part>,
    },
    /// The app's zone is dead.
    Detach {
        /// Which app.
        app: AppId,
    },
    /// An app in this process failed on another worker: it is not to be called any more.
    Disable {
        /// Which app.
        app: AppId,
    },
    /// Serve a connection that another worker has had.
    Adopt(MovedConnection),
    /// Tell about switches with a greater DPID, at most [`PAGE`](crate::query::PAGE), and whether
    /// there are more.
    Switches {
        /// `None`: from the start.
        after: Option<u64>,
        /// Where to.
        reply: Sender<(Vec<SwitchStatus>, bool)>,
    },
    /// Ask a switch for its flows; answered by [`WorkerEvent::Flows`].
    Flows {
        /// Which switch.
        dpid: u64,
        /// What the answer is to name.
        question: u64,
    },
    /// Tell what became of the packet-ins for apps, and of their messages.
    Apps {
        /// Where to.
        reply: Sender<Vec<AppCounters>>,
    },
    /// Close everything and return.
    Stop,
}

/// A connection on its way from one worker to another.
#[derive(Debug)]
pub struct MovedConnection(pub(super) Box<Connection>);

/// What a worker tells the server's thread.
#[derive(Debug)]
pub enum WorkerEvent {
    /// The worker uses its part of an app's rings, or could not.
    Attached {
        /// The attempt.
        attempt: u64,
        /// Why it could not.
        result: Result<(), String>,
    },
    /// An app runs in this process, on this worker.
    Hosted {
        /// Which app.
        app: AppId,
        /// The version that its object states.
        version: String,
    },
    /// An app in this process has failed, and is not called any more on this worker.
    Demoted {
        /// Which app.
        app: AppId,
        /// How.
        why: String,
    },
    /// Something about the flows that were asked for.
    Flows {
        /// What was transactions.
        question: u64,
        /// What there is to say.
        part: flows::Part,
    },
    /// The worker is over, one way or another.
    Ended,
    /// An app's zone lied about its ring.
    Fault {
        /// Which app.
        app: AppId,
        /// How.
        fault: String,
    },
    /// A record ended an app twice.
    SetAside {
        /// Which app.
        app: AppId,
        /// The record.
        record: Vec<u8>,
    },
}

/// A worker's ends.
#[derive(Debug)]
pub struct WorkerChannels {
    /// Which of the pool it is.
    pub me: usize,
    /// All workers.
    pub pool: Arc<WorkerPool>,
    /// What is asked of it.
    pub commands: Receiver<Command>,
    /// Rung after a command was sent, and when there is forwarded messages.
    pub commands_bell: Doorbell,
    /// What the server is told.
    pub events: Sender<WorkerEvent>,
    /// To be rung after a notice was sent.
    pub events_bell: Ringer,
}

/// The server's ends.
#[derive(Debug)]
pub struct ServerChannels {
    /// All workers, to be commanded.
    pub pool: Arc<WorkerPool>,
    /// What they tell.
    pub events: Receiver<WorkerEvent>,
    /// Rung after a notice was sent.
    pub events_bell: Doorbell,
}

/// Makes the channels between so many workers and the server.
///
/// # Errors
/// The system is out of descriptors or memory.
pub fn connect(
    workers: usize,
    tuning: Tuning,
) -> io::Result<(Vec<WorkerChannels>, ServerChannels)> {
    let (to_tell, events) = channel();
    let (events_bell, rings) = Doorbell::new()?;
    let (mut members, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..workers {
        let (commands, to_obey) = channel();
        let (bell, hears) = Ringer::new()?;
        members.push((commands, bell));
        ends.push((to_obey, Doorbell::from_fd(hears), rings.try_clone()?));
    }
    let pool = Arc::new(WorkerPool::new(members, tuning));
    let channels = |(me, (commands, commands_bell, rings))| WorkerChannels {
        me,
        pool: pool.clone(),
        commands,
        commands_bell,
        events: to_tell.clone(),
        events_bell: Ringer::from_fd(rings),
    };
    let channels = ends.into_iter().enumerate().map(channels).collect();
    Ok((channels, ServerChannels { pool, events, events_bell }))
}
