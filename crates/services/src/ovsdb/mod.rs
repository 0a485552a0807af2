//! The databases of switches: apps read them, and own rows in them.
//!
//! Each database has a thread ([`worker`]), which alone waits for the server. The main thread receives requests, and passes them on with the
//! rights of their app. The service keeps the wanted rows by the app's name, so they outlive the app's process; the monitor names the apps that still exist.
//!
//! | module | content |
//! | --- | --- |
//! | `worker` | the thread of a database |
//! | `owners` | the wanted rows of apps, and when they are brought about |
//! | `rows` | rows as apps and the library have them |
//! | `rights` | rights as scopes, and the rights that a refused row lacks |

mod owners;
mod rights;
mod rows;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use control::clients::{ClientId, ClientRequest, Clients, Reply};
use control::service::{OvsdbDatabase, OvsdbStart};
use keys::Keys;
use ovsdb::driver::ClientConfig;
use ovsdb::driver::{Address, Connection, Server};
use ovsdb::open_vswitch::WANTED;
use ovsdb::{ImageLimits, Settings};
use sdk::services::ovsdb::{Answer, Database, MOST_BYTES, MOST_ROWS, Reason, Request, WantedRow};
use sys::doorbell::{Doorbell, DoorbellSender};
use sys::sandbox::Limits;
use sys::sandbox::seccomp::Profile;

use self::owners::{Owners, owner_of};
use self::worker::{Command, Message, Worker};
use crate::broker::RESOLVER_FILES;
use crate::run::{Needs, OpenError, Service, Startup};

/// Most requests of a client that wait for a database. A request for notices waits until the database's thread has it.
const MOST_PENDING: usize = 64;

/// Most sets of wanted rows of a client that wait for a database.
const MOST_SETS: usize = 2;

/// The bounds of an image. The rows of a switch with thousands of ports take a tenth of it.
const IMAGE: ImageLimits = ImageLimits { rows: 100_000, size: 32 << 20 };

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticket {
    client: ClientId,
    id: u64,
    /// Whether it is a set of wanted rows.
    is_set: bool,
}

/// The service.
#[derive(Debug)]
pub struct Databases {
    handles: Vec<Handle>,
    /// The number of this installation, which the names of owners begin with.
    installation: u64,
    bell: Doorbell,
    messages: Receiver<Message>,
    /// The requests of each client that wait for a database, and the sets of wanted rows among them.
    pending: BTreeMap<ClientId, (usize, usize)>,
    /// The parts of wanted rows that each client has sent last, and the number of the database.
    parts: BTreeMap<ClientId, (usize, Vec<WantedRow>)>,
}

/// A database, for the main thread.
#[derive(Debug)]
struct Handle {
    name: String,
    /// Its address in the configuration.
    address: String,
    commands: Sender<Command>,
    bell: DoorbellSender,
    /// Whether it is connected, or why it is not.
    state: Result<(), String>,
}

impl Handle {
    fn send(&self, command: Command) {
        // The thread lives as long as the process.
        if self.commands.send(command).is_ok() {
            self.bell.ring();
        }
    }
}

impl Service for Databases {
    const NAME: &'static str = "ovsdb";

    fn needs(startup: &Startup) -> Needs {
        let limits = Limits { descriptors: 512, threads: 64, file_size: 0, memory: None };
        let databases = startup.ovsdb.iter().flat_map(|it| &it.databases);
        // The directory, because a server replaces its socket at its start.
        let directory = |it: &OvsdbDatabase| match it.address.parse() {
            Ok(Address::Unix(path)) => path.parent().map(Path::to_owned),
            _ => None,
        };
        let read = RESOLVER_FILES.iter().map(PathBuf::from).chain(databases.filter_map(directory));
        Needs { profile: Profile::Ovsdb, network: true, read: read.collect(), limits }
    }

    fn open(startup: Startup) -> Result<Self, OpenError> {
        let Startup { fds, ovsdb, .. } = startup;
        let (bell, wake) = Doorbell::new()?;
        let wake = DoorbellSender::from_fd(wake);
        let (sender, messages) = channel();
        let start = ovsdb.unwrap_or(OvsdbStart {
            databases: Vec::new(),
            tls: false,
            installation: control::app::Installation(0),
        });
        let tls = start.tls.then(|| client_config(fds)).transpose();
        let mut handles = Vec::new();
        for (number, OvsdbDatabase { name, address }) in start.databases.into_iter().enumerate() {
            let (commands, received) = channel();
            let (bell, theirs) = Doorbell::new()?;
            let parsed: Option<Address> = address.parse().ok();
            let connection = connection(parsed.clone(), &tls);
            let state = Err("the service has just started; try again".to_owned());
            let worker = Worker {
                number,
                name: name.clone(),
                address: parsed,
                connection,
                commands: received,
                bell,
                messages: sender.clone(),
                wake: wake.try_clone()?,
                owners: Owners::new(&name, start.installation.0),
                watchers: Vec::new(),
                changed: BTreeSet::new(),
                notice_at: None,
            };
            std::thread::Builder::new().name("database".into()).spawn(move || worker.run())?;
            let bell = DoorbellSender::from_fd(theirs);
            handles.push(Handle { name, address, commands, bell, state });
        }
        let (pending, parts) = (BTreeMap::new(), BTreeMap::new());
        let installation = start.installation.0;
        Ok(Self { handles, installation, bell, messages, pending, parts })
    }

    fn serve(&mut self, asked: Vec<ClientRequest>, clients: &mut Clients) {
        self.pass_on(clients);
        for ClientRequest { client, id, request } in asked {
            let answer = match Request::decode(&request) {
                None => Some(refused(Reason::Malformed, "the request is malformed")),
                Some(request) => self.begin(client, id, request, clients),
            };
            if let Some(answer) = answer {
                clients.answer(Reply { client, id, more: false, body: &answer.encode() });
            }
        }
    }

    fn set_apps(&mut self, names: Vec<String>) {
        for database in &self.handles {
            database.send(Command::Apps(names.clone()));
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn disconnected(&mut self, client: ClientId) {
        self.pending.remove(&client);
        self.parts.remove(&client);
        for database in &self.handles {
            database.send(Command::Gone(client));
        }
    }
}

impl Databases {
    /// Passes a request to its database; returns the answer if it has one at once.
    fn begin(
        &mut self,
        client: ClientId,
        id: u64,
        request: Request<'_>,
        clients: &Clients,
    ) -> Option<Answer> {
        let name = match &request {
            Request::Databases => {
                let app = clients.name(client).unwrap_or_default();
                return Some(self.list(app));
            }
            Request::Read { database, .. }
            | Request::Want { database, .. }
            | Request::Watch { database } => *database,
            _ => return Some(refused(Reason::Malformed, "the request is of an unknown kind")),
        };
        let Some(number) = self.handles.iter().position(|it| it.name == name) else {
            let name = rows::quoted(name);
            let why = format!(
                "there is no database {name}; add [[ovsdb]] with this name to the configuration"
            );
            return Some(refused(Reason::UnknownDatabase, &why));
        };
        let (requests, sets) = self.pending.entry(client).or_default();
        let is_set = matches!(request, Request::Want { .. });
        if *requests >= MOST_PENDING || is_set && *sets >= MOST_SETS {
            let why = format!("{requests} requests wait already; wait for their answers");
            return Some(refused(Reason::Busy, &why));
        }
        let ticket = Ticket { client, id, is_set: false };
        let command = match request {
            Request::Read { table, after, .. } => {
                *requests += 1;
                Command::Read { ticket, table: table.to_owned(), after }
            }
            Request::Want { is_first, is_last, rows, .. } => {
                let parts = self.parts.remove(&client);
                let parts = parts.filter(|(of, _)| !is_first && *of == number);
                let mut all = parts.map(|(_, rows)| rows).unwrap_or_default();
                all.extend(rows);
                if all.len() > MOST_ROWS || rows::size(&all) > MOST_BYTES {
                    let why = format!(
                        "an app may want {MOST_ROWS} rows and {MOST_BYTES} bytes of a database; want fewer"
                    );
                    return Some(refused(Reason::TooMany, &why));
                }
                if !is_last {
                    self.parts.insert(client, (number, all));
                    return Some(Answer::Part);
                }
                (*requests, *sets) = (*requests + 1, *sets + 1);
                let app = clients.name(client).unwrap_or_default().to_owned();
                let rights = clients.rights(client).map(|it| it.ovsdb.clone()).unwrap_or_default();
                let ticket = Ticket { is_set: true, ..ticket };
                Command::Want { ticket, app, rights, rows: all }
            }
            _ => {
                *requests += 1;
                Command::Watch { ticket }
            }
        };
        if let Some(database) = self.handles.get(number) {
            database.send(command);
        }
        None
    }

    fn list(&self, app: &str) -> Answer {
        let of = |it: &Handle| Database {
            name: it.name.clone(),
            address: it.address.clone(),
            is_connected: it.state.is_ok(),
            why: it.state.clone().err().unwrap_or_default(),
        };
        let owner = owner_of(self.installation, app);
        Answer::Databases { owner, databases: self.handles.iter().map(of).collect() }
    }

    /// Passes on the answers of the databases.
    fn pass_on(&mut self, clients: &mut Clients) {
        self.bell.silence();
        for message in self.messages.try_iter() {
            match message {
                Message::State(number, state) => {
                    if let Some(database) = self.handles.get_mut(number) {
                        database.state = state;
                    }
                }
                Message::Watching(client) => {
                    if let Some((requests, _)) = self.pending.get_mut(&client) {
                        *requests = requests.saturating_sub(1);
                    }
                }
                Message::Answer { ticket, body, more, denied } => {
                    let Ticket { client, id, is_set } = ticket;
                    if !more && let Some((requests, sets)) = self.pending.get_mut(&client) {
                        *requests = requests.saturating_sub(1);
                        *sets = sets.saturating_sub(usize::from(is_set));
                    }
                    for right in &denied {
                        clients.record_refusal(client, "rows of a database", right);
                    }
                    clients.answer(Reply { client, id, more, body: &body });
                }
            }
        }
    }
}

fn refused(reason: Reason, why: &str) -> Answer {
    Answer::Refused { reason, why: why.to_owned() }
}

/// Builds the configuration for TLS from the keys in these descriptors.
fn client_config(fds: Vec<OwnedFd>) -> Result<Arc<ClientConfig>, String> {
    let fds: [OwnedFd; Keys::FILES] =
        fds.try_into().map_err(|_| "the monitor passed no keys".to_owned())?;
    let keys = Keys::from_fds(fds).map_err(|error| error.to_string())?;
    keys.client_config().map(Arc::new).map_err(|error| error.to_string())
}

/// Returns a connection that is not made yet, or why it cannot be made.
fn connection(
    address: Option<Address>,
    tls: &Result<Option<Arc<ClientConfig>>, String>,
) -> Result<Connection, String> {
    let address = address.ok_or("the address is none; correct [[ovsdb]]")?;
    let tls = match (&address, tls) {
        (Address::Tls(_), Err(why)) => return Err(why.clone()),
        (Address::Tls(_), Ok(None)) => {
            return Err("there are no keys for TLS; make them with `rosemary pki init`".to_owned());
        }
        (Address::Tls(_), Ok(tls)) => tls.clone(),
        (Address::Tcp(_) | Address::Unix(_), _) => None,
    };
    let settings = Settings { image: IMAGE, ..Settings::default() };
    Ok(Connection::new(Server { address, tls }, WANTED, settings))
}

#[cfg(test)]
mod tests;
