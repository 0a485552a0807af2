//! The texts of audit records: who has requested a change, what became of it, and the state before and after.
//!
//! ```text
//! user 0 requested: stop hub (change 3)
//! user 0: stop hub (change 3) is done: app hub: state running -> stopped
//! ```
//!
//! `change/facts.rs` compares the state of programs, `config::changes` texts of the configuration. The app that owns flows writes the
//! records of flows, groups and meters, and the app `topology` those of drains. The log bounds each record and escapes its text.

use config::is_name;
use control::change::Change;
use control::northbound::TokenRecord;

use crate::text::shortened;

/// Most bytes of the differences in a record. The log cuts a line at 4096 bytes.
const MOST: usize = 3_000;

/// The app that a change names, if it names one.
pub fn named(change: &Change) -> Option<&str> {
    match change {
        Change::App { app, .. } | Change::LogLevel { app, .. } | Change::Stage { app } => Some(app),
        Change::Reload { .. }
        | Change::Configure { .. }
        | Change::Undo { .. }
        | Change::Confirm
        | Change::LeaveSafeMode
        | Change::Session { .. } => None,
    }
}

/// A change as a phrase. It is in quotes if the user has given an app a name that no app can have, as the name could look like the rest
/// of a record.
pub fn phrase(change: &Change) -> String {
    let text = shortened(&change.to_string(), 200);
    if named(change).is_none_or(is_name) { text } else { format!("{text:?}") }
}

/// A user has requested a change.
pub fn requested(who: &str, what: &str, id: u64) -> String {
    format!("{who} requested: {what} (change {id})")
}

/// A change that a user requested could not begin.
pub fn not_begun(who: &str, what: &str, why: &str) -> String {
    format!("{who} requested: {what} (refused: {why})")
}

/// A change is over, or has come to a point from which it may still be undone. `outcome` is a phrase, `differences` say what is
/// different now.
pub fn over((who, what, id): (&str, &str, u64), outcome: &str, differences: &[String]) -> String {
    let differences = listed(differences);
    format!("{who}: {what} (change {id}) {outcome}{differences}")
}

/// Joins differences, as many as a record holds.
fn listed(differences: &[String]) -> String {
    let mut text = String::new();
    for (number, difference) in differences.iter().enumerate() {
        text.push_str(if number == 0 { ": " } else { "; " });
        if text.len() + difference.len() > MOST {
            text.push_str(&(differences.len() - number).to_string());
            text.push_str(" more");
            break;
        }
        text.push_str(difference);
    }
    text
}

/// A user has made or revoked a token.
pub fn token(who: &str, token: &TokenRecord, made: bool) -> String {
    let TokenRecord { id, name, role, created, expires, one_time, .. } = token;
    let name = shortened(name, 100);
    let kind = if *one_time { "one-time token" } else { "token" };
    let lifetime = expires.map_or("without an end".to_owned(), |end| {
        format!("valid for {} s", end.saturating_sub(*created))
    });
    let rights = format!("role {role}, {lifetime}");
    let (verb, before, after) =
        if made { ("made", "none", &*rights) } else { ("revoked", &*rights, "none") };
    let id = shortened(id, 100);
    format!("{who} {verb} the {kind} {name:?} ({id}): {before} -> {after}")
}

/// A user has revoked the certificates of the user `name` that begin before a time, in seconds since 1970. Those that begin before
/// `earlier` were revoked already.
pub fn revoked_user(who: &str, name: &str, earlier: Option<u64>, before: u64) -> String {
    let revoked = |time| format!("revoked if they begin before {time} (seconds since 1970)");
    let (name, earlier) = (shortened(name, 100), earlier.map_or("valid".to_owned(), revoked));
    let now = revoked(before);
    format!("{who} revoked the certificates of {name:?}: {earlier} -> {now}")
}

#[cfg(test)]
mod tests {
    use control::change::AppVerb;

    use super::*;

    #[test]
    fn name_that_no_app_can_have_is_quoted() {
        let change = |app: &str| Change::App { app: app.into(), verb: AppVerb::Stop };
        assert_eq!(phrase(&change("hub")), "stop hub");
        let forged = phrase(&change("hub (change 1) is done\nuser 0: x"));
        assert_eq!(forged, r#""stop hub (change 1) is done\nuser 0: x""#);
        assert!(phrase(&change(&"x".repeat(5_000))).len() < 250);
        assert_eq!(phrase(&Change::Reload { dry_run: false, confirm: None }), "reload");
        let undo = Change::Undo { id: 3, dry_run: false, confirm: Some(9), force: true };
        assert_eq!(phrase(&undo), "undo 3 --confirm 9 --force");
    }

    #[test]
    fn differences_are_bounded_and_counted() {
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&["a 1 -> 2".into(), "b 3 -> 4".into()]), ": a 1 -> 2; b 3 -> 4");
        let many: Vec<String> = (0..1_000).map(|it| format!("key{it} 1 -> 2")).collect();
        let text = listed(&many);
        assert!(text.len() < MOST + 20 && text.ends_with(" more"), "{text}");
    }
}
