//! Answers operators, the HTTP interface and the history service.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use control::northbound::TokenRecord;
use control::operator::{
    MonitorStatus, OperatorReply, OperatorRequest, ProgramState, ProgramUsage, Status,
};
use control::service::ServiceKind;
use supervisor::effects::{Fd, ProgramId};
use supervisor::text::shortened;
use supervisor::usage::report;
use supervisor::{Event, audit};
use tracing::debug;

use super::EventLoop;
use crate::admin_server::OperatorId;
use crate::northbound::{self, NorthboundInput, Revocation};
use crate::processes::MESSAGES_PER_TURN;
use crate::provenance;

/// Why there are no tokens.
const NO_NORTHBOUND: &str = "the HTTP interface is switched off; start Rosemary without --no-northbound, and with `enabled = true` \
                             in [northbound]";

/// The accounts in one message, which stays below the longest one.
const ACCOUNTS_PER_MESSAGE: usize = 200;

/// Who sends a request.
#[derive(Debug)]
struct Requester {
    /// For logs and audit records.
    who: String,
    /// The user.
    uid: u32,
    /// Whether it is the HTTP interface, which acts for users whom it has authenticated.
    is_northbound: bool,
    /// Whether it is the history service, which reads figures.
    is_history: bool,
}

impl EventLoop {
    /// Answers an operator's request.
    pub(super) fn answer(&mut self, id: OperatorId, request: OperatorRequest, now: Instant) {
        let Some(uid) = self.admin.uid(id) else { return };
        let who = format!("user {uid}");
        let requester = Requester { who, uid, is_northbound: false, is_history: false };
        let (reply, fds) = self.reply(request, Vec::new(), &requester, now);
        // The other programs receive a change before the operator learns of it.
        self.settle(now);
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.admin.send(id, &reply, &fds);
    }

    /// Answers some requests of the HTTP interface or of the history service, whose program this is.
    pub(super) fn answer_program(&mut self, program: ProgramId, now: Instant) {
        let is_history = self.supervisor.programs().is_history(program);
        for _ in 0..MESSAGES_PER_TURN {
            let (request, fds) = match self.processes.receive_request(program) {
                Ok(Some(received)) => received,
                Ok(None) => return,
                Err(broken) => return self.decide(Event::Process(program, broken), now),
            };
            let (who, request) = match request {
                OperatorRequest::As { who, request } if !is_history => {
                    (shortened(&who, 100), *request)
                }
                request if is_history => (ServiceKind::History.name().to_owned(), request),
                request => (northbound::NAME.to_owned(), request),
            };
            let uid = rustix::process::geteuid().as_raw();
            let requester = Requester { who, uid, is_northbound: !is_history, is_history };
            let (reply, fds) = self.reply(request, fds, &requester, now);
            self.settle(now);
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
            if let Err(broken) = self.processes.reply(program, &reply, &fds) {
                return self.decide(Event::Process(program, broken), now);
            }
        }
    }

    /// Returns the reply to a request, with its descriptors.
    fn reply(
        &mut self,
        request: OperatorRequest,
        fds: Vec<OwnedFd>,
        requester: &Requester,
        now: Instant,
    ) -> (OperatorReply, Vec<Fd>) {
        let unavailable = |why: String| OperatorReply::Unavailable { why };
        let without = |reply: OperatorReply| (reply, Vec::new());
        if requester.is_northbound && !request.may_be_of_http_interface() {
            let why = "the HTTP interface may neither make tokens nor revoke certificates";
            return without(OperatorReply::Refused { why: why.into() });
        }
        if requester.is_history && !request.may_be_of_history() {
            let why = "the history may only read figures";
            return without(OperatorReply::Refused { why: why.into() });
        }
        match request {
            OperatorRequest::Status => without(OperatorReply::Status(self.status(now))),
            OperatorRequest::App { name } => {
                let report = self.supervisor.programs().app_report(&name);
                without(
                    report.map_or_else(unavailable, |report| OperatorReply::App(Box::new(report))),
                )
            }
            OperatorRequest::Usage => without(OperatorReply::Usage(self.usage())),
            OperatorRequest::Provenance => without(OperatorReply::Provenance(provenance::report())),
            OperatorRequest::Sessions => {
                let sessions = self.supervisor.programs().session_reports();
                without(OperatorReply::Sessions(sessions))
            }
            OperatorRequest::Accounts { since, after } => {
                self.account_now(now);
                let (from, accounts) = self.supervisor.programs().accounts().since(since);
                let more = accounts.len() > after.saturating_add(ACCOUNTS_PER_MESSAGE);
                let accounts =
                    accounts.into_iter().skip(after).take(ACCOUNTS_PER_MESSAGE).collect();
                without(OperatorReply::Accounts { from, accounts, more })
            }
            OperatorRequest::Kernel => {
                let kernel = self.supervisor.programs().kernel().connection();
                match kernel.and_then(|kernel| self.processes.connect_kernel(kernel)) {
                    Ok(operator_end) => {
                        (OperatorReply::Kernel, vec![operator_end.into_fd().into()])
                    }
                    Err(why) => {
                        debug!(why, "could not connect an operator to the kernel");
                        without(unavailable(later(&why)))
                    }
                }
            }
            OperatorRequest::Incidents { from } => {
                let (incidents, more) = self.supervisor.programs().incidents().page(from);
                without(OperatorReply::Incidents { incidents, more })
            }
            OperatorRequest::Log => {
                let log = self.supervisor.programs().log_for_operator(requester.uid);
                match log.and_then(|(log, client)| self.processes.connect(log, client)) {
                    Ok(operator_end) => (OperatorReply::Log, vec![operator_end.into()]),
                    Err(why) => without(unavailable(later(&why))),
                }
            }
            OperatorRequest::History => {
                let history = self.supervisor.programs().history_for_operator(requester.uid);
                match history.and_then(|(it, client)| self.processes.connect(it, client)) {
                    Ok(operator_end) => (OperatorReply::History, vec![operator_end.into()]),
                    Err(why) => without(unavailable(why)),
                }
            }
            OperatorRequest::Service { name } => {
                let user = Some(requester.uid).filter(|_| !requester.is_northbound);
                let programs = self.supervisor.programs();
                let provider = if requester.is_history {
                    programs.provider_for_history(&name, &self.processes)
                } else {
                    programs.provider_for_operator(&name, user, &self.processes)
                };
                let connected = provider.and_then(|(provider, client, table)| {
                    Ok([self.processes.connect(provider, client)?.into(), table])
                });
                match connected {
                    Ok(fds) => (OperatorReply::Service, fds.into()),
                    Err(why) => without(unavailable(why)),
                }
            }
            OperatorRequest::Change(request) => {
                let who = supervisor::change::Requester {
                    who: &requester.who,
                    over_http: requester.is_northbound,
                };
                let begun = self.supervisor.begin_change(request, fds, who, now);
                without(begun.map_or_else(unavailable, OperatorReply::Change))
            }
            OperatorRequest::ChangeReport { id: change } => {
                let why = || format!("there is no report of change {change} any more");
                without(self.supervisor.change_report(change).map_or_else(
                    || unavailable(why()),
                    |report| OperatorReply::Change(report.clone()),
                ))
            }
            OperatorRequest::Config => match self.disk.shown_config() {
                Ok((reply, text)) => (reply, vec![text.into()]),
                Err(why) => without(unavailable(why)),
            },
            OperatorRequest::ConfigChanges { from } => {
                let (changes, more) = self.supervisor.history().page(from);
                without(OperatorReply::ConfigChanges { changes, more })
            }
            OperatorRequest::AddToken(token) => without(self.add_token(&token, requester)),
            OperatorRequest::Tokens => {
                let tokens = self.interface.as_ref().map(|it| it.with(|it| it.tokens.list()));
                let tokens = tokens.map(OperatorReply::Tokens);
                without(tokens.unwrap_or_else(|| unavailable(NO_NORTHBOUND.into())))
            }
            OperatorRequest::RevokeToken { which } => {
                let revoked = self.change_credentials(|it| it.tokens.revoke(&which));
                for token in revoked.iter().flatten() {
                    self.effects.audit(audit::token(&requester.who, token, false));
                }
                let count = revoked.map(|tokens| OperatorReply::Revoked(tokens.len()));
                without(count.unwrap_or_else(unavailable))
            }
            OperatorRequest::RevokeUser { name } => without(self.revoke_user(&name, requester)),
            OperatorRequest::As { .. } => {
                let why = "only the HTTP interface acts on behalf of others".into();
                without(OperatorReply::Refused { why })
            }
        }
    }

    /// Changes by what users of the HTTP interface are recognised, with effect at once.
    ///
    /// # Errors
    /// Why nothing is changed, as a phrase.
    fn change_credentials<T>(
        &mut self,
        change: impl FnOnce(&mut NorthboundInput) -> Result<T, String>,
    ) -> Result<T, String> {
        let interface = self.interface.as_ref().ok_or(NO_NORTHBOUND)?;
        let changed = interface.with(change)?;
        self.supervisor.programs_mut().send_credentials();
        Ok(changed)
    }

    fn add_token(&mut self, token: &TokenRecord, requester: &Requester) -> OperatorReply {
        let added = self.change_credentials(|it| {
            it.tokens.add(token.clone())?;
            Ok(it.api())
        });
        match added {
            Ok(api) => {
                self.effects.audit(audit::token(&requester.who, token, true));
                OperatorReply::Interface { api }
            }
            Err(why) => OperatorReply::Unavailable { why },
        }
    }

    fn revoke_user(&mut self, name: &str, requester: &Requester) -> OperatorReply {
        if self.interface.is_none() {
            return OperatorReply::RevokedUser { dir: None, before: None };
        }
        let revoke =
            |it: &mut NorthboundInput| it.revoke_user(name).map_err(|error| error.to_string());
        match self.change_credentials(revoke) {
            Ok(Revocation { dir, earlier, before }) => {
                if let Some(before) = before.filter(|_| before != earlier) {
                    self.effects.audit(audit::revoked_user(&requester.who, name, earlier, before));
                }
                OperatorReply::RevokedUser { dir, before }
            }
            Err(why) => OperatorReply::Unavailable { why },
        }
    }

    fn status(&self, now: Instant) -> Status {
        let uptime = now.saturating_duration_since(self.started).as_millis();
        let monitor = MonitorStatus {
            pid: std::process::id(),
            uptime_seconds: f64::from(u32::try_from(uptime / 100).unwrap_or(u32::MAX)) / 10.0,
        };
        let stored = [self.incidents.not_stored(), self.accounts.not_stored()];
        let mut status = self.supervisor.status(monitor, stored.into_iter().flatten(), now);
        status.warnings.extend(provenance::faults());
        status
    }

    fn usage(&self) -> Vec<ProgramUsage> {
        let monitor = ProgramUsage {
            pid: Some(std::process::id()),
            ..report::program_usage("monitor", "monitor", ProgramState::Running, &self.own_meter)
        };
        [monitor].into_iter().chain(self.supervisor.programs().usage()).collect()
    }
}

/// Adds what to do about a program that cannot be reached now.
fn later(why: &str) -> String {
    format!("{why}; try again in a moment")
}
