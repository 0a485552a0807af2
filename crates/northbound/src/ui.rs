//! Serves the web page, which uses `/api/v1` alone.
//!
//! Its files are part of the program (`build.rs`). They contain nothing about the network, so everyone may read them. The
//! Content-Security-Policy lets the page run its own scripts only, talk to its own server only, and turn no text into HTML: a string
//! of a switch, host, app or log cannot run even if a mistake of the page put it where HTML belongs.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route};
use crate::state::Api;

/// The page's files by their paths; empty if the page was not built.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// `svelte-trusted-html` is the policy by which Svelte makes its constant templates.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// Shown where the page would be.
const MISSING: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
                       <title>Rosemary</title>\n<h1>Rosemary runs, without its web page</h1>\n\
                       <p>This rosemary-northbound was built without the page, which needs Node.js 18 or newer. In the source tree, type \
                       <code>make ui</code> and then <code>make build</code> or <code>make deb</code>, and restart Rosemary.</p>\n\
                       <p>The API works: <a href=\"/api/v1/openapi.json\">its description</a>. <code>rosemary status</code> shows the \
                       network in a terminal.</p>\n</html>\n";

/// The routes of the page.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/", "page", page).anyone().undescribed(),
        Route::get("/assets/{name}", "asset", asset).anyone().undescribed(),
    ]
}

async fn page(_api: Arc<Api>, _call: Call) -> Answer {
    let file = file("index.html").unwrap_or(MISSING.as_bytes());
    Ok(response(file, "text/html; charset=utf-8", "no-cache"))
}

async fn asset(_api: Arc<Api>, call: Call) -> Answer {
    let name = format!("assets/{}", call.path("name"));
    let Some(content) = file(&name) else {
        return Err(Problem::not_found(
            "the page has no such file",
            "load the page again, as Rosemary may have been upgraded",
        ));
    };
    // All names but that of the icon change with the content.
    let cache = if name.contains('-') { "public, max-age=31536000, immutable" } else { "no-cache" };
    Ok(response(content, media_type(&name), cache))
}

fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(its, _)| *its == name).map(|(_, content)| *content)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn response(content: &'static [u8], media_type: &'static str, cache: &'static str) -> Response {
    let mut response = Response::new(Body::from(content));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_a_policy_without_inline_scripts() {
        let response = response(MISSING.as_bytes(), "text/html; charset=utf-8", "no-cache");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn built_page_is_complete() {
        let Some(index) = file("index.html") else { return };
        let index = std::str::from_utf8(index).unwrap();
        for part in index.split('"').filter(|part| part.starts_with("/assets/")) {
            assert!(file(&part[1..]).is_some(), "{part} is missing");
        }
        assert!(!index.contains("<style") && !index.contains("javascript:"), "{index}");
        assert_eq!(file("assets/../index.html"), None);
    }
}
