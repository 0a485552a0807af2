//! Chooses the headers that pass between a client and an app.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers of requests that describe what a client wants, and the origin that asks. A header that is not listed may identify the
/// user, as those of a proxy that authenticates users do.
const PASSED_TO_APPS: [&str; 23] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "dnt",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "prefer",
    "range",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "user-agent",
    "x-requested-with",
];

/// Headers of answers that describe the content. A header that is not listed may make a browser do more than show it.
const PASSED_TO_CLIENTS: [HeaderName; 13] = [
    header::ACCEPT_RANGES,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::RETRY_AFTER,
    header::VARY,
];

/// The headers of a client's request for an app, and one with the path at which the app is served.
pub(super) fn for_app(headers: &HeaderMap, app: &str) -> Vec<(String, String)> {
    let chosen = headers.iter().filter(|(name, _)| PASSED_TO_APPS.contains(&name.as_str()));
    // A value that is not ASCII has no meaning that both sides agree on.
    let chosen = chosen
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    chosen.chain([("x-forwarded-prefix".to_owned(), format!("/apps/{app}"))]).collect()
}

/// The headers of an app's answer for a client.
///
/// # Errors
/// Why the answer is not valid.
pub(super) fn for_client(given: &[(String, String)], app: &str) -> Result<HeaderMap, &'static str> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let Ok(name) = name.parse::<HeaderName>() else { return Err("a header has no valid name") };
        let is_multipart =
            |value: &str| value.trim_start().to_ascii_lowercase().starts_with("multipart/");
        let value = if name == header::LOCATION {
            location(value, app).ok_or("its Location leads away from the app")?
        } else if name == header::CONTENT_TYPE && is_multipart(value) {
            return Err("it is multipart, whose parts have headers of their own");
        } else if PASSED_TO_CLIENTS.contains(&name) {
            value.clone()
        } else {
            continue;
        };
        let value = HeaderValue::from_str(&value).map_err(|_| "a header has no valid value")?;
        headers.insert(name, value); // the last one of a name counts
    }
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/octet-stream"));
    Ok(headers)
}

/// The `Location` of an app's answer, if it stays with the app: a path of the app, or a relative one.
fn location(value: &str, app: &str) -> Option<String> {
    let path = value.split(['?', '#']).next().unwrap_or_default();
    let leaves = |segment: &str| {
        let decoded = segment.to_ascii_lowercase().replace("%2e", ".");
        decoded == ".."
    };
    // Browsers remove tabs and line breaks, and read a backslash as a slash.
    if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    if path.contains([':', '\\']) || path.starts_with("//") || path.split('/').any(leaves) {
        return None;
    }
    let prefix = format!("/apps/{app}/");
    if path.starts_with('/') && !path.starts_with(&prefix) {
        return Some(format!("/apps/{app}{value}"));
    }
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        headers.collect()
    }

    #[test]
    fn headers_that_identify_users_stay_here() {
        let headers = map(&[
            ("authorization", "Bearer a"),
            ("proxy-authorization", "Basic a"),
            ("cookie", "a=b"),
            ("sec-websocket-protocol", "bearer.a"),
            ("connection", "close"),
            ("x-forwarded-user", "joe"),
            ("x-auth-request-access-token", "a"),
            ("x-api-key", "a"),
            ("x-forwarded-prefix", "/elsewhere"),
            ("accept", "text/html"),
            ("host", "127.0.0.1"),
        ]);
        let mut passed = for_app(&headers, "web");
        passed.sort();
        let expected =
            [("accept", "text/html"), ("host", "127.0.0.1"), ("x-forwarded-prefix", "/apps/web")];
        assert!(passed.iter().map(|(a, b)| (&**a, &**b)).eq(expected), "{passed:?}");
    }

    #[test]
    fn answers_pass_headers_about_their_content_alone() {
        let given = [
            ("Content-Type", "text/html"),
            ("Set-Cookie", "a=b"),
            ("content-security-policy", "default-src *"),
            ("x-frame-options", "ALLOWALL"),
            ("access-control-allow-origin", "*"),
            ("refresh", "0; url=http://attacker.example"),
            ("clear-site-data", "\"*\""),
            ("www-authenticate", "Basic realm=\"Rosemary\""),
            ("strict-transport-security", "max-age=1"),
            ("service-worker-allowed", "/"),
            ("link", "<http://attacker.example>; rel=preload"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("connection", "upgrade"),
            ("etag", "\"a\""),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let passed = for_client(&given, "web").unwrap();
        assert_eq!(passed, map(&[("content-type", "text/html"), ("etag", "\"a\"")]));
        let multipart =
            ("content-type".to_owned(), " Multipart/x-mixed-replace;boundary=a".to_owned());
        assert!(for_client(&[multipart], "web").is_err());
        let none = for_client(&[], "web").unwrap();
        assert_eq!(none, map(&[("content-type", "application/octet-stream")]));
    }

    #[test]
    fn redirects_stay_with_the_app() {
        for (value, expected) in [
            ("x", Some("x")),
            ("x?a=http://b", Some("x?a=http://b")),
            ("/x", Some("/apps/web/x")),
            ("/apps/web/x", Some("/apps/web/x")),
            ("/apps/other/", Some("/apps/web/apps/other/")),
            ("?a", Some("?a")),
            ("//attacker.example", None),
            ("/\\attacker.example", None),
            ("\\\\attacker.example", None),
            ("http://attacker.example", None),
            ("javascript:alert(1)", None),
            ("../other/", None),
            ("/apps/web/../other/", None),
            ("%2E%2e/other/", None),
            (".\t./other/", None),
            ("/apps/web/.\t./other/", None),
            (" /x", None),
        ] {
            assert_eq!(location(value, "web").as_deref(), expected, "{value}");
        }
    }
}
