//! One request, after it was admitted: who sent it, its parameters, and its body.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use openflow::Dpid;
use serde::de::DeserializeOwned;

use crate::auth::Principal;
use crate::guard::From;
use crate::problem::Problem;
use crate::route::{BodyForm, Content, Form, Route, percent_decoded};
use crate::state::lock;

/// The longest text parameter, in characters.
const LONGEST: usize = 256;

/// The longest query in bytes.
const LONGEST_QUERY: usize = 8 << 10;

/// A request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) principal: Principal,
    /// The connection.
    pub(crate) from: From,
    path: BTreeMap<&'static str, String>,
    query: BTreeMap<&'static str, String>,
    body_form: Option<BodyForm>,
    /// The head of the request.
    pub(crate) parts: Parts,
    /// The body, until it is read.
    body: Mutex<Option<Body>>,
    confirm: Option<Confirm>,
}

/// Fails if the sender of a call is no longer the one who was admitted.
pub(crate) struct Confirm(pub(crate) Box<dyn Fn() -> Result<(), Problem> + Send + Sync>);

impl fmt::Debug for Confirm {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Confirm")
    }
}

impl Call {
    /// Checks the parameters of a request against its route.
    ///
    /// # Errors
    /// A parameter is unknown, missing, repeated or malformed, or the body has the wrong type.
    pub(crate) fn new(
        (principal, from): (Principal, From),
        route: &Route,
        path: BTreeMap<&'static str, String>,
        request: Request,
    ) -> Result<Self, Problem> {
        let query = parse_query(route, request.uri().query().unwrap_or_default())?;
        check_media_type(route.body.as_ref(), request.headers())?;
        let (parts, body) = request.into_parts();
        let body = Mutex::new(Some(body));
        Ok(Self { principal, from, path, query, body_form: route.body, parts, body, confirm: None })
    }

    /// A parameter of the path; empty if the path has none of this name.
    pub(crate) fn path(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// The switch in the path.
    ///
    /// # Errors
    /// It is no datapath id.
    pub(crate) fn dpid(&self) -> Result<Dpid, Problem> {
        parse_dpid(self.path("dpid"))
    }

    /// A number in the path.
    ///
    /// # Errors
    /// It is no number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Problem> {
        let text = self.path(name);
        let hint = "write a number in decimal digits";
        text.parse().map_err(|_| Problem::invalid(format!("{name} is {text:?}"), hint))
    }

    /// A parameter of the query, which has the form that the route declares.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A number of the query.
    pub(crate) fn query_number(&self, name: &str) -> Option<u64> {
        self.query(name)?.parse().ok()
    }

    /// A flag of the query.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    /// A switch of the query.
    pub(crate) fn query_dpid(&self, name: &str) -> Option<Dpid> {
        self.query(name)?.parse().ok()
    }

    /// The headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Checks with `confirm` again who the sender is, once the body has arrived.
    pub(crate) fn confirmed_by(self, confirm: Confirm) -> Self {
        Self { confirm: Some(confirm), ..self }
    }

    /// Receives the body.
    ///
    /// # Errors
    /// It is too long, the client ended it early, or the sender is no longer known.
    pub(crate) async fn body(&self) -> Result<Bytes, Problem> {
        let most = self.body_form.map_or(0, |form| form.most);
        let body = lock(&self.body).take().unwrap_or_default();
        let body = receive(body, most).await?;
        match &self.confirm {
            Some(Confirm(confirm)) => confirm().map(|()| body),
            None => Ok(body),
        }
    }

    /// Receives a JSON body. Without one, returns `T`'s default if the route allows that.
    ///
    /// # Errors
    /// As [`body`](Self::body), or it is not what the route expects.
    pub(crate) async fn json<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        let is_required = self.body_form.is_some_and(|form| form.required);
        let bytes = self.body().await?;
        if bytes.is_empty() && !is_required {
            return Ok(T::default());
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            let hint = "see /api/v1/openapi.json for the members of the body";
            Problem::invalid(format!("the body is not valid: {error}"), hint)
        })
    }
}

/// Receives a body of at most `most` bytes.
///
/// # Errors
/// It is too long, or the client ended it early.
pub(crate) async fn receive(body: Body, most: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long(most)),
        Err(error) => Err(Problem::invalid(
            format!("the body could not be received: {error}"),
            "send the whole body",
        )),
    }
}

/// The problem of a body longer than `most` bytes.
fn too_long(most: usize) -> Problem {
    Problem::too_large(format!("the body is longer than {most} bytes"), "send less at once")
}

/// Reads a datapath id.
///
/// # Errors
/// It is none.
pub(crate) fn parse_dpid(text: &str) -> Result<Dpid, Problem> {
    text.parse().map_err(|_| {
        let hint = "write a datapath id as 00:00:00:00:00:00:00:01, 0x1 or 1";
        Problem::invalid(format!("{text:?} is no datapath id"), hint)
    })
}

fn parse_query(route: &Route, query: &str) -> Result<BTreeMap<&'static str, String>, Problem> {
    let mut values = BTreeMap::new();
    if query.len() > LONGEST_QUERY {
        return Err(Problem::invalid("the query is too long", "name fewer parameters"));
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| {
            percent_decoded(text, true).map_err(|why| {
                Problem::invalid(
                    format!("the query is malformed: {why}"),
                    "encode it as RFC 3986 says",
                )
            })
        };
        let (name, value) = (decoded(name)?, decoded(value)?);
        let Some(param) = route.query.iter().find(|param| param.name == name) else {
            let known: Vec<&str> = route.query.iter().map(|param| param.name).collect();
            let hint = match known[..] {
                [] => "this path has no parameters".to_owned(),
                _ => format!("the parameters are: {}", known.join(", ")),
            };
            return Err(Problem::invalid(format!("there is no parameter {name:?}"), hint));
        };
        check(param.name, param.form, &value)?;
        if values.insert(param.name, value).is_some() {
            let detail = format!("{name} is given more than once");
            return Err(Problem::invalid(detail, "name each parameter once"));
        }
    }
    for param in route.query.iter().filter(|param| param.required) {
        if !values.contains_key(param.name) {
            let detail = format!("the parameter {} is missing", param.name);
            return Err(Problem::invalid(detail, param.about));
        }
    }
    Ok(values)
}

fn check(name: &str, form: Form, value: &str) -> Result<(), Problem> {
    let is_valid = match form {
        Form::Text => value.chars().count() <= LONGEST && !value.chars().any(char::is_control),
        Form::Dpid => return parse_dpid(value).map(drop),
        Form::Number(least, most) => {
            // `parse` would accept a plus sign.
            value.bytes().all(|it| it.is_ascii_digit())
                && value.parse::<u64>().is_ok_and(|it| (least..=most).contains(&it))
        }
        Form::Flag => matches!(value, "true" | "false"),
        Form::Choice(words) => words.contains(&value),
    };
    if is_valid {
        return Ok(());
    }
    let hint = match form {
        Form::Text | Form::Dpid => format!("expected text of at most {LONGEST} characters"),
        Form::Number(least, most) => format!("expected a number from {least} to {most}"),
        Form::Flag => "expected true or false".into(),
        Form::Choice(words) => format!("expected one of: {}", words.join(", ")),
    };
    let shown: String = value.chars().take(60).collect();
    Err(Problem::invalid(format!("{name} is {shown:?}"), hint))
}

/// Checks the type of the body. A form of a web page, whose types need no consent of the server, never passes.
fn check_media_type(form: Option<&BodyForm>, headers: &HeaderMap) -> Result<(), Problem> {
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    let given = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let given = given.map(|it| it.split(';').next().unwrap_or_default().trim());
    let Some(form) = form else {
        let unwanted = || Problem::invalid("this request has no body", "send it without a body");
        return if has_body { Err(unwanted()) } else { Ok(()) };
    };
    if !has_body && !form.required {
        return Ok(());
    }
    let media = match form.content {
        Content::Other(media) => media,
        Content::Json(_) | Content::List(_) | Content::Empty => "application/json",
    };
    if !given.is_some_and(|given| given.eq_ignore_ascii_case(media)) {
        let detail = format!("the body is {}", given.unwrap_or("of no stated type"));
        return Err(Problem::media_type(detail, format!("send it with `Content-Type: {media}`")));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if length.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it > form.most as u64) {
        return Err(too_long(form.most));
    }
    Ok(())
}
