//! The web page, which uses `/api/v1` alone.

use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::Response;

use crate::call::Call;
use crate::route::{Answer, Route};
use crate::state::Api;

/// The routes of the page.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::get("/", "page", page).anyone().undescribed()]
}

async fn page(_api: Arc<Api>, _call: Call) -> Answer {
    let text = "<!doctype html><meta charset=utf-8><title>Rosemary</title><p>This build of Rosemary has no page: it was built \
                without Node.js. The API is at <a href=/api/v1/openapi.json>/api/v1</a>.";
    let mut response = Response::new(text.into());
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    Ok(response)
}
