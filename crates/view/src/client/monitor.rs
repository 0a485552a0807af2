//! Sends requests to the monitor.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use control::app_report::AppReport;
use control::change::{ChangeReport, ChangeRequest, ConfigChange};
use control::incident::{Incident, IncidentId};
use control::northbound::TokenRecord;
use control::operator::{OperatorReply, OperatorRequest, ProgramUsage, Provenance, Status};
use control::session::SessionReport;
use sdk::services::Service;
use serde::Serialize;
use sys::channel::Channel;

use super::{ClientError, History, Kernel, Log, Provided, REPLY_TIMEOUT, exchange, exchange_with};
use crate::accounts::Accounts;

/// The longest configuration in bytes, as it is shown.
const MAX_CONFIG: usize = 2 << 20;

/// The text of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigText {
    /// The file; `None` if there is none.
    pub file: Option<PathBuf>,
    /// The SHA-256 of the file with its secrets, in hexadecimal digits.
    pub sha256: String,
    /// The text, without its secrets.
    pub toml: String,
    /// The keys whose values are hidden.
    pub redacted: Vec<String>,
}

/// A connection to the monitor of a running Rosemary.
#[derive(Debug)]
pub struct Monitor(Channel);

impl Monitor {
    /// Speaks over a connection to the admin socket.
    pub fn over(channel: Channel) -> Self {
        Self(channel)
    }

    /// Requests the status of all programs.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn status(&self) -> Result<Status, ClientError> {
        match self.request(&OperatorRequest::Status)? {
            (OperatorReply::Status(status), _) => Ok(status),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Connects to a service that an app provides.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if the service does not run; the monitor does not reply, or refuses.
    pub fn service(&self, service: Service) -> Result<Provided, ClientError> {
        let request = OperatorRequest::Service { name: service.name().into() };
        match exchange(&self.0, &request, "the monitor", REPLY_TIMEOUT)? {
            (OperatorReply::Service, fds) => Provided::new(service, fds),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the report about the app `name`.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if no app of this name is to run; the monitor does not reply, or refuses.
    pub fn app(&self, name: &str) -> Result<AppReport, ClientError> {
        match self.request(&OperatorRequest::App { name: name.into() })? {
            (OperatorReply::App(report), _) => Ok(*report),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the resource use of all programs.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn usage(&self) -> Result<Vec<ProgramUsage>, ClientError> {
        match self.request(&OperatorRequest::Usage)? {
            (OperatorReply::Usage(usage), _) => Ok(usage),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests which files were checked before they ran.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn provenance(&self) -> Result<Provenance, ClientError> {
        match self.request(&OperatorRequest::Provenance)? {
            (OperatorReply::Provenance(provenance), _) => Ok(provenance),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a connection to the kernel.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] while the kernel does not run; the monitor does not reply, or refuses.
    pub fn kernel(&self) -> Result<Kernel, ClientError> {
        match self.request(&OperatorRequest::Kernel)? {
            (OperatorReply::Kernel, Some(fd)) => Ok(Kernel::over(Channel::from_fd(fd))),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a connection to the log service.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] while the log service does not run; the monitor does not reply, or refuses.
    pub fn log(&self) -> Result<Log, ClientError> {
        match self.request(&OperatorRequest::Log)? {
            (OperatorReply::Log, Some(fd)) => Ok(Log::new(fd)),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a connection to the history service.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if no history is kept or the service does not run; the monitor does not reply, or refuses.
    pub fn history(&self) -> Result<History, ClientError> {
        match self.request(&OperatorRequest::History)? {
            (OperatorReply::History, Some(fd)) => Ok(History::new(fd)),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a change, which goes on after the reply.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] while another change is made; the monitor does not reply, or refuses.
    pub fn change(&self, request: ChangeRequest) -> Result<ChangeReport, ClientError> {
        self.change_report(&OperatorRequest::Change(request))
    }

    /// Requests a change in the name of the user `who`. Only the HTTP interface may do so.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub fn change_for(
        &self,
        who: &str,
        request: ChangeRequest,
    ) -> Result<ChangeReport, ClientError> {
        let request = Box::new(OperatorRequest::Change(request));
        self.change_report(&OperatorRequest::As { who: who.into(), request })
    }

    /// Requests a change in the name of the user `who`, with descriptors that belong to it. Only the HTTP interface may do so.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub fn change_with(
        &self,
        who: &str,
        request: ChangeRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<ChangeReport, ClientError> {
        let request = Box::new(OperatorRequest::Change(request));
        let request = OperatorRequest::As { who: who.into(), request };
        match exchange_with(&self.0, &request, fds, "the monitor", REPLY_TIMEOUT)? {
            (OperatorReply::Change(report), _) => Ok(report),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the text of the configuration, without its secrets.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn config(&self) -> Result<ConfigText, ClientError> {
        match self.request(&OperatorRequest::Config)? {
            (OperatorReply::Config { file, sha256, redacted }, Some(fd)) => {
                let text = sys::shm::read_sealed(fd, MAX_CONFIG).ok();
                let text = text.and_then(|text| String::from_utf8(text).ok());
                let text = text.ok_or(ClientError::Unexpected { peer: "the monitor" })?;
                Ok(ConfigText { file, sha256, toml: text, redacted })
            }
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Adds a token of the HTTP interface. Returns the interface's address; `None` if it has only the Unix socket.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] without an interface; the monitor does not reply, or refuses.
    pub fn add_token(&self, token: TokenRecord) -> Result<Option<SocketAddr>, ClientError> {
        match self.request(&OperatorRequest::AddToken(token))? {
            (OperatorReply::Interface { api }, _) => Ok(api),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Lists the sessions.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn sessions(&self) -> Result<Vec<SessionReport>, ClientError> {
        match self.request(&OperatorRequest::Sessions)? {
            (OperatorReply::Sessions(sessions), _) => Ok(sessions),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Lists the accounts since a time in seconds since 1970.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn accounts(&self, since: u64) -> Result<Accounts, ClientError> {
        let mut all = Vec::new();
        loop {
            let request = OperatorRequest::Accounts { since, after: all.len() };
            let (reply, _) = self.request(&request)?;
            let OperatorReply::Accounts { from, accounts, more } = reply else {
                return Err(refusal(reply));
            };
            if more && accounts.is_empty() {
                return Err(ClientError::Unexpected { peer: "the monitor" });
            }
            all.extend(accounts);
            if !more {
                return Ok(Accounts { from, accounts: all });
            }
        }
    }

    /// Lists the tokens of the HTTP interface.
    ///
    /// # Errors
    /// As [`add_token`](Self::add_token).
    pub fn tokens(&self) -> Result<Vec<TokenRecord>, ClientError> {
        match self.request(&OperatorRequest::Tokens)? {
            (OperatorReply::Tokens(tokens), _) => Ok(tokens),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Revokes the tokens with this identifier or name, in the name of the user `who` if the HTTP interface does so. Returns their number.
    ///
    /// # Errors
    /// As [`add_token`](Self::add_token).
    pub fn revoke_token(&self, which: &str, who: Option<&str>) -> Result<usize, ClientError> {
        let request = OperatorRequest::RevokeToken { which: which.into() };
        let request = match who {
            None => request,
            Some(who) => OperatorRequest::As { who: who.into(), request: Box::new(request) },
        };
        match self.request(&request)? {
            (OperatorReply::Revoked(number), _) => Ok(number),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Has the list of revoked users read again, which has the user `name`. Returns the directory of the list, or `None` if no
    /// certificates are accepted, and the time before which refused certificates of the user begin, in seconds since 1970, or `None`
    /// if the list does not have the user.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if the list cannot be read; the monitor does not reply, or refuses.
    pub fn revoke_user(&self, name: &str) -> Result<(Option<PathBuf>, Option<u64>), ClientError> {
        match self.request(&OperatorRequest::RevokeUser { name: name.into() })? {
            (OperatorReply::RevokedUser { dir, before }, _) => Ok((dir, before)),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a later report of a change.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn change_so_far(&self, id: u64) -> Result<ChangeReport, ClientError> {
        self.change_report(&OperatorRequest::ChangeReport { id })
    }

    fn change_report(&self, request: &OperatorRequest) -> Result<ChangeReport, ClientError> {
        match self.request(request)? {
            (OperatorReply::Change(report), _) => Ok(report),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the changes of the configuration from number `from` on, in ascending order.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn config_changes(&self, mut from: u64) -> Result<Vec<ConfigChange>, ClientError> {
        let mut all: Vec<ConfigChange> = Vec::new();
        loop {
            let (reply, _) = self.request(&OperatorRequest::ConfigChanges { from })?;
            let OperatorReply::ConfigChanges { changes, more } = reply else {
                return Err(refusal(reply));
            };
            all.extend(changes);
            match all.last() {
                // Numbers that do not grow would lead to the same request again.
                Some(last) if more && last.id >= from => from = last.id + 1,
                _ if more => return Err(ClientError::Unexpected { peer: "the monitor" }),
                _ => return Ok(all),
            }
        }
    }

    /// Requests the incidents from number `from` on, in ascending order.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn incidents(&self, mut from: IncidentId) -> Result<Vec<Incident>, ClientError> {
        let mut all: Vec<Incident> = Vec::new();
        loop {
            let (reply, _) = self.request(&OperatorRequest::Incidents { from })?;
            let OperatorReply::Incidents { incidents, more } = reply else {
                return Err(refusal(reply));
            };
            all.extend(incidents);
            match all.last() {
                // Numbers that do not grow would lead to the same request again.
                Some(last) if more && last.id >= from => from = IncidentId(last.id.0 + 1),
                _ if more => return Err(ClientError::Unexpected { peer: "the monitor" }),
                _ => return Ok(all),
            }
        }
    }

    fn request(
        &self,
        request: &OperatorRequest,
    ) -> Result<(OperatorReply, Option<OwnedFd>), ClientError> {
        let (reply, fds) = exchange(&self.0, request, "the monitor", REPLY_TIMEOUT)?;
        Ok((reply, fds.into_iter().next()))
    }
}

fn refusal(reply: OperatorReply) -> ClientError {
    match reply {
        OperatorReply::Refused { why } => ClientError::Refused(why),
        OperatorReply::Unavailable { why } => ClientError::Unavailable(why),
        OperatorReply::Status(_)
        | OperatorReply::App(_)
        | OperatorReply::Usage(_)
        | OperatorReply::Kernel
        | OperatorReply::Log
        | OperatorReply::History
        | OperatorReply::Config { .. }
        | OperatorReply::Interface { .. }
        | OperatorReply::Tokens(_)
        | OperatorReply::Revoked(_)
        | OperatorReply::RevokedUser { .. }
        | OperatorReply::Service
        | OperatorReply::Change(_)
        | OperatorReply::ConfigChanges { .. }
        | OperatorReply::Provenance(_)
        | OperatorReply::Sessions(_)
        | OperatorReply::Accounts { .. }
        | OperatorReply::Incidents { .. } => ClientError::Unexpected { peer: "the monitor" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_connection_is_an_error() {
        let (ours, theirs) = Channel::passing_pair().unwrap();
        drop(theirs);
        let error = Monitor(ours).status().unwrap_err().to_string();
        assert_eq!(error, "the monitor did not reply; see its log");
    }
}
