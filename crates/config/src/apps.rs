//! Reads all `[[app]]` tables, and compares the apps with each other.

use std::path::{Path, PathBuf};

use super::app::{APP_KEYS, AppConfig, Manifests};
use super::position::line_of;
use super::value::Value;

/// Maximum number of apps.
pub const MOST_APPS: usize = 64;

/// Maximum number of elements in all apps' lists together. The kernel receives all apps in one message of at
/// most [`MAX_MESSAGE`](sys::channel::MAX_MESSAGE) bytes.
pub const MOST_ELEMENTS: usize = 3072;

/// Reads the `[[app]]` tables of `text`. Leaves those out that have no valid name. Paths are relative to `base`; missing keys have
/// the values of `manifests`, or else the defaults.
pub(super) fn read(
    value: &Value<'_>,
    base: &Path,
    text: &str,
    manifests: &Manifests,
) -> Vec<AppConfig> {
    let Some(tables) = value.elements() else {
        value.refuse("tables that begin with [[app]], in two brackets");
        return Vec::new();
    };
    if let Some(first) = tables.get(MOST_APPS) {
        let number = 1 + MOST_APPS;
        first.refuse_as(format!("this is app number {number}; expected at most {MOST_APPS}"));
        return Vec::new();
    }
    let mut apps: Vec<AppConfig> = Vec::new();
    let mut elements = 0;
    for value in tables {
        let Some(app) = read_one(&value, base, manifests) else { continue };
        if let Some(first) = apps.iter().find(|other| other.name == app.name) {
            value.refuse_as(format!(
                "another app has the name {:?}, in line {}; expected a different name",
                app.name,
                line_of(text, first.at)
            ));
        }
        let before = elements;
        elements += app.elements();
        if before <= MOST_ELEMENTS && elements > MOST_ELEMENTS {
            value.refuse_as(format!(
                "the lists ethertypes, dpids and capabilities up to this app have {elements} elements in all; \
                 expected at most {MOST_ELEMENTS}"
            ));
        }
        apps.push(app);
    }
    apps
}

/// Reads an `[[app]]`. Returns `None` if it has no valid name.
fn read_one(value: &Value<'_>, base: &Path, manifests: &Manifests) -> Option<AppConfig> {
    let mut app = AppConfig::read(value.table("[[app]]", &APP_KEYS)?, manifests)?;
    let below = |path: PathBuf| base.join(path);
    (app.object, app.config) = (app.object.map(below), app.config.map(below));
    app.host_keys.path = app.host_keys.path.into_iter().map(below).collect();
    Some(app)
}
