//! Makes answers: JSON with an `ETag`, and pages of lists.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sys::text::hex;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answer;

/// The number of items in a page, if the client names none.
const PAGE: usize = 100;

/// Answers a GET with JSON, or with 304 if the client has this version.
///
/// # Errors
/// The value cannot be written.
pub(crate) fn json(call: &Call, value: &impl Serialize) -> Answer {
    let bytes = encode(value)?;
    let digest = Sha256::digest(&bytes);
    let tag = format!("\"{}\"", hex(&digest[..16]));
    tagged(call, &tag, bytes)
}

/// Answers a GET with JSON that has this `ETag`.
///
/// # Errors
/// The `ETag` is no header.
pub(crate) fn tagged(call: &Call, tag: &str, bytes: Vec<u8>) -> Answer {
    let failed = |_| Problem::internal("an ETag is malformed", "see `rosemary logs`");
    let value = HeaderValue::from_str(tag).map_err(failed)?;
    let has_it = call.headers().get_all(header::IF_NONE_MATCH).iter().any(|given| {
        let given = given.to_str().unwrap_or_default();
        given.split(',').any(|it| {
            let it = it.trim();
            it == "*" || it.strip_prefix("W/").unwrap_or(it) == tag
        })
    });
    let mut response = if has_it {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        with_status(StatusCode::OK, bytes)
    };
    response.headers_mut().insert(header::ETAG, value);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Answers a GET with one page of a list.
///
/// # Errors
/// An item cannot be written.
pub(crate) fn list(call: &Call, items: &[impl Serialize]) -> Answer {
    let number = |name| call.query_number(name).and_then(|it| usize::try_from(it).ok());
    let (limit, after) = (number("limit").unwrap_or(PAGE), number("after").unwrap_or(0));
    let page = items.get(after..).unwrap_or_default();
    let page = page.get(..limit).unwrap_or(page);
    let end = after.saturating_add(page.len());
    let next = (end < items.len()).then_some(end);
    json(call, &json!({ "items": page, "next": next, "total": items.len() }))
}

/// Answers a change with JSON.
///
/// # Errors
/// The value cannot be written.
pub(crate) fn done(status: StatusCode, value: &impl Serialize) -> Answer {
    Ok(with_status(status, encode(value)?))
}

/// Answers a change without content.
pub(crate) fn empty() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| {
        Problem::internal(format!("cannot write JSON: {error}"), "see `rosemary logs`")
    })
}

fn with_status(status: StatusCode, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
