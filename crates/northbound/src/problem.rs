//! Errors as clients receive them: problem details (RFC 9457) that say what to do.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use view::client::ClientError;

/// Why a request was not answered as wished.
#[derive(Debug)]
pub(crate) struct Problem(Box<Members>);

/// The parts of a problem.
#[derive(Debug)]
struct Members {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    /// What to do.
    hint: String,
    extra: Map<String, Value>,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

/// Defines a constructor: name, status, kind, title.
macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident, $status:ident, $kind:literal, $title:literal;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name(detail: impl Into<String>, hint: impl Into<String>) -> Self {
            Self::new(StatusCode::$status, ($kind, $title), detail.into(), hint.into())
        })*
    };
}

impl Problem {
    problems! {
        /// The request is malformed.
        invalid, BAD_REQUEST, "invalid", "The request is not valid";
        /// Nobody knows who sent it.
        unauthorized, UNAUTHORIZED, "unauthorized", "The request does not show who sent it";
        /// The user lacks the role.
        forbidden, FORBIDDEN, "forbidden", "The user may not do this";
        /// There is no such thing.
        not_found, NOT_FOUND, "not-found", "There is nothing of this name";
        /// The path does not have the method.
        method, METHOD_NOT_ALLOWED, "method-not-allowed", "The path does not have this method";
        /// The state does not allow it.
        conflict, CONFLICT, "conflict", "The present state does not allow this";
        /// The resource has changed.
        precondition, PRECONDITION_FAILED, "precondition-failed", "The resource has changed";
        /// A header that names the expected state is missing.
        precondition_required, PRECONDITION_REQUIRED, "precondition-required", "The request must say which state it changes";
        /// The body is too long.
        too_large, PAYLOAD_TOO_LARGE, "too-large", "The body is too long";
        /// The body has another type.
        media_type, UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body has the wrong type";
        /// The Host header names another machine.
        misdirected, MISDIRECTED_REQUEST, "misdirected", "The request is meant for another machine";
        /// There were too many requests.
        too_many, TOO_MANY_REQUESTS, "too-many-requests", "There were too many requests";
        /// A program does not run now.
        unavailable, SERVICE_UNAVAILABLE, "unavailable", "A program of Rosemary cannot answer now";
        /// A program or switch did not answer.
        timeout, GATEWAY_TIMEOUT, "timeout", "There was no answer in time";
        /// An app's answer cannot be passed on.
        bad_answer, BAD_GATEWAY, "bad-answer", "An app did not answer as it must";
        /// The path is too long.
        uri_too_long, URI_TOO_LONG, "too-large", "The path is too long";
        /// The headers are too long.
        headers_too_large, REQUEST_HEADER_FIELDS_TOO_LARGE, "too-large", "The headers are too long";
        /// The client took too long.
        slow, REQUEST_TIMEOUT, "timeout", "The request took too long to arrive";
        /// The process itself failed.
        internal, INTERNAL_SERVER_ERROR, "internal", "The HTTP interface failed";
    }

    fn new(
        status: StatusCode,
        (kind, title): (&'static str, &'static str),
        detail: String,
        hint: String,
    ) -> Self {
        let (extra, headers) = (Map::new(), Vec::new());
        Self(Box::new(Members { status, kind, title, detail, hint, extra, headers }))
    }

    /// Adds a member.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.0.extra.insert(name.to_owned(), value);
        self
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: header::HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers.push((name, value));
        }
        self
    }

    /// The same as a conflict with the present state.
    pub(crate) fn into_conflict(self) -> Self {
        let Members { detail, hint, .. } = *self.0;
        Self::conflict(detail, hint)
    }

    /// What happened, in words.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Its status.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Members { status, kind, title, detail, hint, extra, headers: own } = *self.0;
        let mut body = json!({
            "type": format!("urn:rosemary:problem:{}", kind),
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
            "hint": hint,
        });
        if let Value::Object(members) = &mut body {
            members.extend(extra);
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.extend(own);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"rosemary\""),
            );
        }
        response
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Unavailable(why) => {
                Self::unavailable(why, "see `rosemary status`, and try again")
            }
            ClientError::Refused(why) => Self::forbidden(why, "see `rosemary logs`"),
            ClientError::Failed(why) => {
                Self::timeout(why, "see `rosemary logs`; the switch may be overloaded or gone")
            }
            ClientError::TimedOut { .. } | ClientError::NoReply { .. } => {
                Self::unavailable(text, "try again; the program may be restarting")
            }
            ClientError::Unexpected { .. } => {
                Self::internal(text, "install programs of one version, and restart Rosemary")
            }
        }
    }
}
