//! Channels between the workers and the server thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use sys::doorbell::{Doorbell, DoorbellSender};

use super::questions::Subject;
use crate::answer_part;
use crate::app_port::part::Part;
use crate::connection::Connection;
use crate::ids::WorkerId;
use crate::pool::WorkerPool;
use control::app::{AbsentApp, AppId, Installation};
use control::kernel::{FailedMessage, MissingFlows, OtherController, RefusedSwitch, Tuning};
use control::log::LogLevel;
use control::policy::Policy;
use control::query::{AppCounters, Orphans, SwitchSender, SwitchStatus};
use control::session::SessionShares;

/// A command to a worker: [`Adopt`](Self::Adopt) comes from another worker, all others from the server thread.
#[derive(Debug)]
pub enum Command {
    /// Use these rings for an app instead of its former ones; answered by [`WorkerEvent::Attached`].
    Attach {
        /// The number of the attempt.
        attempt: u64,
        /// The app.
        app: AppId,
        /// The app's name, for log lines.
        name: String,
        /// The app's capabilities and stage.
        policy: Policy,
        /// The worker's part of the rings.
        part: Box<Part>,
    },
    /// The app's zone is dead.
    Detach {
        /// The app.
        app: AppId,
    },
    /// The app's rights or its position have changed, or it is new.
    Know {
        /// The app.
        app: AppId,
        /// The app's name, for log lines.
        name: String,
        /// The app's capabilities and stage.
        policy: Policy,
    },
    /// Divide the work of the worker by these shares of sessions.
    Sessions {
        /// The shares.
        shares: Arc<SessionShares>,
    },
    /// Charge each call of an app in this process with the memory that it takes, or do so no longer.
    ChargeMemory {
        /// Whether calls are charged.
        charge: bool,
    },
    /// The log of the app in this process has another level.
    LogLevel {
        /// The app.
        app: AppId,
        /// The level.
        level: LogLevel,
    },
    /// The app was stopped or removed: leave it out of the plan.
    Forget {
        /// The app.
        app: AppId,
    },
    /// An app in this process failed on another worker, or too often: do not call it any more.
    Disable {
        /// The app.
        app: AppId,
    },
    /// A service runs that an app in this process uses.
    Service {
        /// The app.
        app: AppId,
        /// The service's name.
        name: String,
        /// The socket of this worker's instance of the app.
        socket: OwnedFd,
        /// The service's table, if it has one.
        table: Option<Arc<OwnedFd>>,
    },
    /// Serve a connection that another worker hands over.
    Adopt(MovedConnection),
    /// Send the status of at most [`PAGE`](control::query::PAGE) switches with a greater datapath id than `after`, and
    /// whether there are more.
    Switches {
        /// `None` for the first page.
        after: Option<u64>,
        /// The receiver of the answer.
        reply: Sender<(Vec<SwitchStatus>, bool)>,
    },
    /// Request the flows or details of a switch; answered by [`WorkerEvent::Flows`].
    Flows {
        /// The switch.
        dpid: u64,
        /// The subject of the request.
        subject: Subject,
        /// The number that the answer repeats.
        question: u64,
    },
    /// Send the counters of all apps.
    Apps {
        /// The receiver of the answer.
        reply: Sender<Vec<AppCounters>>,
    },
    /// Send the flow-mods of each app to each switch.
    Senders {
        /// Only switches with a greater datapath id.
        after: Option<u64>,
        /// The receiver of the answer.
        reply: Sender<Vec<SwitchSender>>,
    },
    /// These apps have a number and do not run here.
    Absent {
        /// The apps.
        apps: Arc<[AbsentApp]>,
    },
    /// Read what absent apps own in the switches.
    ReadOrphans {
        /// The switch; `None` for all.
        dpid: Option<u64>,
        /// Whether to remove it.
        remove: bool,
        /// The receiver of the answer: whether there is such a switch.
        reply: Sender<bool>,
    },
    /// Send what absent apps own in the switches, as read last.
    Orphans {
        /// The switch; `None` for all.
        dpid: Option<u64>,
        /// The receiver of the answer.
        reply: Sender<Orphans>,
    },
    /// Close everything and return.
    Stop,
}

/// A connection on its way from one worker to another.
#[derive(Debug)]
pub struct MovedConnection(pub(super) Box<Connection>);

/// An event that a worker reports to the server thread.
#[derive(Debug)]
pub enum WorkerEvent {
    /// The worker uses its part of an app's rings, or could not use it.
    Attached {
        /// The attempt.
        attempt: u64,
        /// Success, or the error as text.
        result: Result<(), String>,
    },
    /// An app runs in this process, on this worker.
    Hosted {
        /// The app.
        app: AppId,
        /// The version that its object states.
        version: String,
    },
    /// An app in this process has failed. This worker does not call it any more.
    Demoted {
        /// The app.
        app: AppId,
        /// The failure as text.
        why: String,
    },
    /// An instance of a contained app in this process has failed. This worker makes another one.
    InstanceEnded {
        /// The app.
        app: AppId,
        /// The failure as text.
        why: String,
    },
    /// A part of the flows that a command requested.
    Flows {
        /// The command's number.
        question: u64,
        /// The part.
        part: answer_part::Part,
    },
    /// A switch had lost flows of the kernel or of a guard, which are restored.
    FlowsMissing(MissingFlows),
    /// A switch does not carry out a message of the kernel's own, or of a guard.
    MessageFailed(FailedMessage),
    /// A switch has carried out a message that had failed, or has disconnected.
    MessageRecovered {
        /// The switch.
        dpid: String,
        /// The message.
        message: String,
    },
    /// A connection claimed a datapath that it may not have, and is closed.
    SwitchRefused(RefusedSwitch),
    /// Another controller commands a switch.
    OtherController(OtherController),
    /// The worker's thread has ended.
    Ended,
    /// An app's zone broke the contract of its ring.
    Fault {
        /// The app.
        app: AppId,
        /// The failure as text.
        fault: String,
    },
    /// An app ended at this record twice; the record is not delivered again.
    SetAside {
        /// The app.
        app: AppId,
        /// The record.
        record: Vec<u8>,
    },
}

/// Sends commands to the workers of a pool.
#[derive(Debug, Clone)]
pub struct Commander {
    senders: Vec<Sender<Command>>,
    pool: Arc<WorkerPool>,
}

impl Commander {
    /// Sends a command to a worker.
    pub fn send(&self, worker: WorkerId, command: Command) {
        // The server notices a worker that has ended.
        let _ = self.senders[worker.0].send(command);
        self.pool.wake(worker);
    }

    /// Sends a command to each worker.
    pub fn send_all(&self, command: impl Fn() -> Command) {
        (0..self.senders.len()).for_each(|worker| self.send(WorkerId(worker), command()));
    }
}

/// The ends of the channels that a worker holds.
#[derive(Debug)]
pub struct WorkerChannels {
    /// The worker's id.
    pub me: WorkerId,
    /// All workers.
    pub pool: Arc<WorkerPool>,
    /// Sends commands to the others.
    pub commander: Commander,
    /// Commands to the worker.
    pub commands: Receiver<Command>,
    /// Rung after a command was sent or a message was forwarded.
    pub commands_bell: Doorbell,
    /// Events for the server.
    pub events: Sender<WorkerEvent>,
    /// The worker rings it after it has sent an event.
    pub events_bell: DoorbellSender,
}

impl WorkerChannels {
    /// Reports an event to the server.
    pub(super) fn notify(&self, event: WorkerEvent) {
        // The server lives as long as the process, so this does not fail.
        let _ = self.events.send(event);
        self.events_bell.ring();
    }

    /// Reports a part of the answer to an operator's question about flows.
    pub(super) fn flow_part(&self, question: u64, part: answer_part::Part) {
        self.notify(WorkerEvent::Flows { question, part });
    }

    /// Reports that an operator's question about flows has no answer.
    pub(super) fn flows_failed(&self, question: u64, why: String) {
        self.flow_part(question, answer_part::Part::Failed(why));
    }
}

/// The ends of the channels that the server holds.
#[derive(Debug)]
pub struct ServerChannels {
    /// All workers.
    pub pool: Arc<WorkerPool>,
    /// Sends commands to them.
    pub commander: Commander,
    /// Their events.
    pub events: Receiver<WorkerEvent>,
    /// Rung after an event was sent.
    pub events_bell: Doorbell,
}

/// Makes the channels between `workers` workers and the server.
///
/// # Errors
/// The system is out of descriptors or memory.
pub fn connect(
    workers: usize,
    tuning: Tuning,
    installation: Installation,
) -> io::Result<(Vec<WorkerChannels>, ServerChannels)> {
    let (to_report, events) = channel();
    let (events_bell, rings) = Doorbell::new()?;
    let (mut senders, mut bells, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..workers {
        let (commands, received) = channel();
        let (bell, wakes) = DoorbellSender::new()?;
        senders.push(commands);
        bells.push(bell);
        ends.push((received, Doorbell::from_fd(wakes), rings.try_clone()?));
    }
    let pool = Arc::new(WorkerPool::new(bells, tuning, installation));
    let commander = Commander { senders, pool: pool.clone() };
    let channels = |(me, (commands, commands_bell, rings))| WorkerChannels {
        me: WorkerId(me),
        pool: pool.clone(),
        commander: commander.clone(),
        commands,
        commands_bell,
        events: to_report.clone(),
        events_bell: DoorbellSender::from_fd(rings),
    };
    let channels = ends.into_iter().enumerate().map(channels).collect();
    Ok((channels, ServerChannels { pool, commander, events, events_bell }))
}
