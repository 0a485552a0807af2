//! The state that all requests share: connections to the monitor, the kernel and the services, and by what users are recognised.
//!
//! The clients of `view` wait for answers, so they run on the runtime's blocking threads, and a semaphore bounds how many do so at
//! once. Everything else runs on one thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::northbound::{Credentials, NorthboundReply, NorthboundSettings};
use control::operator::Status;
use sdk::services::Service;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use view::client::{ClientError, Kernel, Monitor, Provided};

use crate::app_routes::AppRoutes;
use crate::auth::peer::Peers;
use crate::auth::session::Sessions;
use crate::events::Events;
use crate::limits::{self, Rates};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::route::Routes;
use crate::tls::Refusals;

/// The most requests that wait for other programs at once.
const AT_ONCE: usize = 16;

/// The most idle connections to the kernel.
const IDLE_KERNELS: usize = 4;

/// How old a status may be that clients without a role can ask for.
const RECENT: Duration = Duration::from_secs(1);

/// How long a request waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(30);

/// The shared state.
#[derive(Debug)]
pub(crate) struct Api {
    monitor: Mutex<Monitor>,
    kernels: Mutex<Vec<Kernel>>,
    services: Mutex<HashMap<Service, Provided>>,
    turns: Semaphore,
    /// The last answer of [`recent_status`](Self::recent_status), and its time.
    recent: tokio::sync::Mutex<Option<(Instant, Option<Arc<Status>>)>>,
    /// Uploads, which take memory.
    pub(crate) uploads: Semaphore,
    credentials: watch::Sender<Arc<Credentials>>,
    pub(crate) settings: NorthboundSettings,
    pub(crate) sessions: Sessions,
    pub(crate) peers: Option<Peers>,
    pub(crate) rates: Mutex<Rates>,
    /// Lines about refused TLS connections.
    pub(crate) refusals: Mutex<Refusals>,
    pub(crate) routes: Routes,
    /// The connections to apps with routes of their own.
    pub(crate) app_routes: Arc<AppRoutes>,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    /// The routes at the address for metrics.
    pub(crate) metrics_routes: Routes,
    /// Notified when the process must end because its connection to the monitor is out of step.
    pub(crate) broken: Notify,
    /// Orders for the task that holds the control socket.
    orders: mpsc::Sender<ControlOrder>,
}

/// An order for the task that holds the control socket.
#[derive(Debug)]
pub(crate) enum ControlOrder {
    /// Send this to the monitor.
    Send(NorthboundReply),
    /// Handle the messages of the monitor that have arrived, then answer.
    CatchUp(oneshot::Sender<()>),
}

/// The parameters of the process.
pub(crate) struct Parts {
    pub(crate) monitor: Monitor,
    pub(crate) settings: NorthboundSettings,
    pub(crate) credentials: Credentials,
    pub(crate) peers: Option<Peers>,
    pub(crate) orders: mpsc::Sender<ControlOrder>,
}

impl Api {
    /// Makes the state.
    pub(crate) fn new(parts: Parts, routes: Routes) -> Self {
        let Parts { monitor, settings, credentials, peers, orders } = parts;
        Self {
            monitor: Mutex::new(monitor),
            kernels: Mutex::default(),
            services: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
            recent: tokio::sync::Mutex::default(),
            uploads: Semaphore::new(limits::UPLOADS),
            sessions: Sessions::default(),
            credentials: watch::Sender::new(Arc::new(credentials)),
            settings,
            peers,
            rates: Mutex::default(),
            refusals: Mutex::default(),
            routes,
            app_routes: Arc::default(),
            events: Events::default(),
            metrics: Metrics::default(),
            metrics_routes: crate::metrics::own_routes(),
            broken: Notify::new(),
            orders,
        }
    }

    /// By what users are recognised now.
    pub(crate) fn credentials(&self) -> Arc<Credentials> {
        self.credentials.borrow().clone()
    }

    /// Handles the messages of the monitor that have arrived: a credential that the monitor revoked before a request was sent does
    /// not admit the request.
    ///
    /// # Errors
    /// The process is ending.
    pub(crate) async fn catch_up(&self) -> Result<(), Problem> {
        let ending = || Problem::unavailable("the HTTP interface is ending", "send it again");
        let (done, caught_up) = oneshot::channel();
        self.orders.send(ControlOrder::CatchUp(done)).await.map_err(|_| ending())?;
        caught_up.await.map_err(|_| ending())
    }

    /// Tells the monitor that a one-time token was used.
    pub(crate) async fn report_used(&self, id: &str) {
        let reply = NorthboundReply::Used { id: id.to_owned() };
        // Without the control task the process ends.
        let _ = self.orders.send(ControlOrder::Send(reply)).await;
    }

    /// Notices when users may not be recognised any more.
    pub(crate) fn watch_credentials(&self) -> watch::Receiver<Arc<Credentials>> {
        self.credentials.subscribe()
    }

    /// Replaces what users are recognised by.
    pub(crate) fn set_credentials(&self, new: Credentials) {
        self.credentials.send_replace(Arc::new(new));
    }

    /// Ends a session.
    pub(crate) fn end_session(&self, id: &str, now_s: u64) {
        self.sessions.end(id, now_s);
        self.credentials.send_modify(|_| ()); // for those who watch
    }

    /// Marks a one-time token as used. Returns whether it was unused. The monitor forgets it, too.
    pub(crate) fn use_once(&self, id: &str) -> bool {
        self.credentials.send_if_modified(|credentials| {
            let before = credentials.tokens.len();
            Arc::make_mut(credentials).tokens.retain(|token| token.id != id);
            credentials.tokens.len() < before
        })
    }

    /// Runs `ask` with the connection to the monitor.
    ///
    /// # Errors
    /// That of `ask`, or there are too many requests.
    pub(crate) async fn monitor<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&Monitor) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.wait(move |api| api.ask_monitor(ask)).await
    }

    /// The status, at most a second old, or `None` if the monitor did not answer. The monitor is asked once per second, however many
    /// clients ask, and whether or not they wait for the answer. That needs no turn of [`wait`](Self::wait): requests that wait for
    /// other programs say nothing about the monitor.
    pub(crate) async fn recent_status(self: &Arc<Self>) -> Option<Arc<Status>> {
        let api = self.clone();
        // A task, because a client that closes its connection ends the request.
        let asked = tokio::spawn(async move {
            let mut recent = api.recent.lock().await;
            if let Some((at, status)) = &*recent
                && at.elapsed() < RECENT
            {
                return status.clone();
            }
            let asked = api.clone();
            let status = move || asked.ask_monitor(Monitor::status);
            let status = tokio::task::spawn_blocking(status).await;
            let status = status.ok().and_then(Result::ok).map(Arc::new);
            *recent = Some((Instant::now(), status.clone()));
            status
        });
        asked.await.ok().flatten()
    }

    /// Runs `ask` with a connection to the kernel, on a connection of its own.
    ///
    /// # Errors
    /// That of `ask`, the kernel does not run, or there are too many requests.
    pub(crate) async fn kernel<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl Fn(&Kernel) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.wait(move |api| api.ask_kernel(ask)).await
    }

    /// Runs `read` with the connection to a service that an app provides.
    ///
    /// # Errors
    /// That of `read`, the service does not run, or there are too many requests.
    pub(crate) async fn service<T: Send + 'static>(
        self: &Arc<Self>,
        service: Service,
        read: impl FnOnce(&Provided) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.wait(move |api| api.ask_service(service, read)).await
    }

    /// Runs `work`, which may wait for other programs, on a blocking thread.
    ///
    /// # Errors
    /// That of `work`, or there are too many requests.
    pub(crate) async fn wait<T: Send + 'static, E: Into<Problem> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::unavailable(
                "too many requests wait for other programs",
                "try again in a moment",
            )
        };
        let turn = tokio::time::timeout(TURN_TIME, self.turns.acquire()).await;
        let _turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let api = self.clone();
        let result = tokio::task::spawn_blocking(move || work(&api)).await;
        result
            .map_err(|_| Problem::internal("a request failed unexpectedly", "see `rosemary logs`"))?
            .map_err(Into::into)
    }

    /// Asks the monitor. For blocking threads.
    pub(crate) fn ask_monitor<T>(
        &self,
        ask: impl FnOnce(&Monitor) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let result = ask(&lock(&self.monitor));
        // A reply that comes later would be taken for that to the next request.
        if let Err(
            ClientError::TimedOut { .. }
            | ClientError::NoReply { .. }
            | ClientError::Unexpected { .. },
        ) = &result
        {
            self.broken.notify_one();
        }
        result
    }

    /// Asks the kernel. For blocking threads.
    pub(crate) fn ask_kernel<T>(
        &self,
        ask: impl Fn(&Kernel) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let idle = lock(&self.kernels).pop();
        if let Some(kernel) = idle {
            match ask(&kernel) {
                // The kernel of this connection has ended.
                Err(ClientError::NoReply { .. }) => lock(&self.kernels).clear(),
                result => return self.keep(kernel, result),
            }
        }
        let kernel = self.ask_monitor(Monitor::kernel)?;
        let result = ask(&kernel);
        self.keep(kernel, result)
    }

    /// Keeps a connection for later unless it is out of step.
    fn keep<T>(&self, kernel: Kernel, result: Result<T, ClientError>) -> Result<T, ClientError> {
        let is_in_step = matches!(&result, Ok(_) | Err(ClientError::Failed(_)));
        let mut kernels = lock(&self.kernels);
        if is_in_step && kernels.len() < IDLE_KERNELS {
            kernels.push(kernel);
        }
        result
    }

    /// Asks a provider. For blocking threads.
    pub(crate) fn ask_service<T>(
        &self,
        service: Service,
        read: impl FnOnce(&Provided) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let known = lock(&self.services).remove(&service).filter(Provided::is_open);
        let provided = match known {
            Some(provided) => provided,
            None => self.ask_monitor(|monitor| monitor.service(service))?,
        };
        let result = read(&provided);
        if result.is_ok() {
            lock(&self.services).insert(service, provided);
        }
        result
    }
}

/// Locks a mutex. A thread that panicked leaves the values usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use control::operator::{
        KernelStatus, MonitorStatus, OperatorReply, OperatorRequest, ProgramState,
    };
    use sys::channel::Channel;

    use super::*;

    fn status() -> Status {
        Status {
            version: "0".into(),
            monitor: MonitorStatus { pid: 1, uptime_seconds: 0.0 },
            kernel: KernelStatus {
                pid: None,
                uid: 0,
                state: ProgramState::Running,
                restarts: 0,
                last_exit: None,
                listen: Vec::new(),
            },
            services: Vec::new(),
            apps: Vec::new(),
            inactive: Vec::new(),
            warnings: Vec::new(),
            unserved: Vec::new(),
            refused: Vec::new(),
            not_stored: Vec::new(),
            unheld: Vec::new(),
            rejected: None,
            unconfirmed: None,
            other_controller: None,
            safe_mode: None,
        }
    }

    #[test]
    fn monitor_is_asked_for_the_status_once_per_second() {
        let (ours, theirs) = Channel::passing_pair().unwrap();
        let questions = Arc::new(AtomicUsize::new(0));
        let asked = questions.clone();
        std::thread::spawn(move || {
            while let Ok((OperatorRequest::Status, _)) = theirs.wait() {
                asked.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
                let _ = theirs.send(&OperatorReply::Status(status()), &[]);
            }
        });
        let parts = Parts {
            monitor: Monitor::over(ours),
            settings: NorthboundSettings::default(),
            credentials: Credentials::default(),
            peers: None,
            orders: mpsc::channel(1).0,
        };
        let api = Arc::new(Api::new(parts, Routes::new(Vec::new())));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // Nobody waits for some of the answers.
            for _ in 0..20 {
                let _ = tokio::time::timeout(Duration::ZERO, api.recent_status()).await;
            }
            let all = (0..20).map(|_| api.recent_status());
            let all = futures_util::future::join_all(all).await;
            assert!(all.iter().all(Option::is_some));
            assert_eq!(questions.load(Ordering::Relaxed), 1);
            tokio::time::sleep(RECENT).await;
            let _busy = api.turns.acquire_many(u32::try_from(AT_ONCE).unwrap()).await.unwrap();
            let status = tokio::time::timeout(RECENT, api.recent_status()).await;
            status.expect("it needs no turn").unwrap();
            assert_eq!(questions.load(Ordering::Relaxed), 2);
        });
    }
}
