//! Handles the messages of the server.

use std::time::Instant;

use serde_json::{Map, Value as Json, json};

use super::{
    Client, Closed, Event, MONITOR, Method, NO_TRANSACTION, Phase, Request, TransactionId,
};
use crate::image::{Change, Image};
use crate::outcome;
use crate::rpc::{self, ErrorKind, Message, ServerError};
use crate::schema::{Schema, is_name};
use crate::update;
use crate::value::Uuid;

/// The most databases that an error lists.
const MOST_LISTED: usize = 8;

impl Client {
    pub(super) fn receive(
        &mut self,
        message: &[u8],
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), Closed> {
        match Message::read(message)? {
            Message::Request { id, method, params } => self.answer(&id, &method, &params),
            Message::Notification { method, params } => self.notified(&method, &params, events),
            Message::Response { id, result } => {
                let id = id.as_u64().ok_or(Closed::UnknownAnswer)?;
                let pending = self.pending.remove(&id).ok_or(Closed::UnknownAnswer)?;
                self.answered(id, pending.request, result, now, events)
            }
        }
    }

    /// Answers a request of the server.
    fn answer(&mut self, id: &Json, method: &str, params: &Json) -> Result<(), Closed> {
        let answer = match method {
            "echo" => rpc::response(id, params, &Json::Null),
            _ => rpc::response(id, &Json::Null, &json!({"error": "unknown method"})),
        };
        if self.output.len() + answer.len() > self.settings.output {
            return Err(Closed::OutputFull(self.output.len()));
        }
        self.output.extend(answer);
        Ok(())
    }

    fn answered(
        &mut self,
        id: u64,
        request: Request,
        result: Result<Json, ServerError>,
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), Closed> {
        let method = request.method();
        let refused = |error| Closed::Refused { method, error };
        match request {
            Request::Echo => Ok(()), // an error is an answer, too
            Request::Databases => self.databases(&result.map_err(refused)?, now),
            Request::Schema => self.read_schema(&result.map_err(refused)?, now),
            Request::Monitor(method) => match (result, method.next()) {
                (Ok(result), _) => self.monitored(method, &result, events),
                (Err(error), Some(next)) if error.kind() == ErrorKind::UnknownMethod => {
                    self.monitor(next, now);
                    Ok(())
                }
                (Err(error), _) => Err(refused(error)),
            },
            Request::Transact(expected) => {
                let schema = self.schema.as_ref().ok_or(Closed::Answer(method))?;
                let outcome = match result {
                    Ok(result) => outcome::read(&result, &expected, schema),
                    Err(error) => Err(outcome::Failure::Commit(error)),
                };
                events.push(Event::Transacted(TransactionId(id), outcome));
                Ok(())
            }
        }
    }

    fn databases(&mut self, result: &Json, now: Instant) -> Result<(), Closed> {
        let names = result.as_array().ok_or(Closed::Answer("list_dbs"))?;
        let mut names = names.iter().filter_map(Json::as_str);
        let wanted = self.wanted.database;
        if names.clone().all(|name| name != wanted) {
            let mut found: Vec<String> = Vec::new();
            found.extend(names.by_ref().filter(|it| is_name(it)).take(MOST_LISTED).map(Into::into));
            return Err(Closed::NoDatabase { wanted, found });
        }
        self.request(Request::Schema, &json!([wanted]), now + self.settings.answer);
        Ok(())
    }

    fn read_schema(&mut self, result: &Json, now: Instant) -> Result<(), Closed> {
        let schema = Schema::read(result)?;
        let selection = self.wanted.check(&schema)?;
        if self.schema.as_ref() != Some(&schema) {
            // Values of the image may not fit the new types, so no difference can be applied to them.
            self.last_transaction = None;
        }
        (self.schema, self.selection) = (Some(schema), selection);
        self.monitor(Method::MonitorCondSince, now);
        Ok(())
    }

    fn monitor(&mut self, method: Method, now: Instant) {
        let tables = self
            .selection
            .iter()
            .map(|(table, columns)| (table.clone(), json!([{"columns": columns}])));
        let mut params = vec![
            json!(self.wanted.database),
            json!(MONITOR),
            Json::Object(tables.collect::<Map<_, _>>()),
        ];
        if method == Method::MonitorCondSince {
            params.push(json!(self.last_transaction.as_deref().unwrap_or(NO_TRANSACTION)));
        }
        let deadline = now + self.settings.answer;
        self.request(Request::Monitor(method), &Json::Array(params), deadline);
    }

    /// Handles the first rows, or the changes since the last known transaction.
    fn monitored(
        &mut self,
        method: Method,
        result: &Json,
        events: &mut Vec<Event>,
    ) -> Result<(), Closed> {
        let answer = || Closed::Answer(method.name());
        let (is_continued, updates) = match (method, result.as_array().map(Vec::as_slice)) {
            (Method::MonitorCondSince, Some([found, last, updates])) => {
                let found = found.as_bool().ok_or_else(answer)?;
                if found && self.last_transaction.is_none() {
                    return Err(answer());
                }
                let last = last.as_str().filter(|it| it.parse::<Uuid>().is_ok());
                // Without an identifier the next connection reads all rows.
                self.last_transaction = last.filter(|it| *it != NO_TRANSACTION).map(Into::into);
                (found, updates)
            }
            (Method::MonitorCondSince, _) => return Err(answer()),
            (Method::MonitorCond | Method::Monitor, _) => {
                self.last_transaction = None;
                (false, result)
            }
        };
        let changes = if is_continued {
            self.apply(method, updates)?
        } else {
            let old = std::mem::take(&mut self.image);
            self.apply(method, updates)?;
            old.changes_to(&self.image)
        };
        self.phase = Phase::Synchronized(method);
        self.backoff.succeed();
        events.push(Event::Synchronized(changes));
        Ok(())
    }

    fn apply(&mut self, method: Method, updates: &Json) -> Result<Vec<Change>, Closed> {
        let schema = self.schema.as_ref().ok_or(Closed::Answer(method.name()))?;
        let applied = update::read(updates, method.form(), &self.selection, schema)
            .map_err(Closed::from)
            .and_then(|updates| Ok(self.image.apply(updates, schema, self.settings.image)?));
        if applied.is_err() {
            // The image no longer follows the database: the next connection reads all rows.
            self.image = Image::default();
            self.last_transaction = None;
        }
        applied
    }

    fn notified(
        &mut self,
        name: &str,
        params: &Json,
        events: &mut Vec<Event>,
    ) -> Result<(), Closed> {
        let params = params.as_array().map(Vec::as_slice).unwrap_or_default();
        match (name, params) {
            ("update" | "update2" | "update3", _) => {
                let Phase::Synchronized(method) = self.phase else {
                    return Err(Closed::Answer("monitor"));
                };
                let updates = self.updates(method, name, params)?;
                let changes = self.apply(method, updates)?;
                if !changes.is_empty() {
                    events.push(Event::Changed(changes));
                }
                Ok(())
            }
            ("monitor_canceled", [monitor]) if monitor == MONITOR => Err(Closed::Canceled),
            _ => Ok(()), // RFC 7047 has others, about locks, which the client does not take
        }
    }

    /// Returns the changes of an `update` notification, and notes the transaction.
    fn updates<'a>(
        &mut self,
        method: Method,
        name: &str,
        params: &'a [Json],
    ) -> Result<&'a Json, Closed> {
        let (monitor, updates) = match (method, params) {
            (Method::MonitorCondSince, [monitor, Json::String(last), updates]) => {
                let last = (last.parse::<Uuid>().is_ok()).then(|| last.clone());
                self.last_transaction = last.filter(|it| it != NO_TRANSACTION);
                (monitor, updates)
            }
            (Method::MonitorCond | Method::Monitor, [monitor, updates]) => (monitor, updates),
            _ => return Err(Closed::Answer(method.name())),
        };
        if name != method.notification() || monitor != MONITOR {
            return Err(Closed::Answer(method.name()));
        }
        Ok(updates)
    }
}
