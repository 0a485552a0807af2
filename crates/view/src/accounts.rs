//! Accounts as operators see them: the resources that apps and Rosemary's programs have used.

use control::account::Account;
use serde::Serialize;

/// The accounts since a time. Their JSON is stable (`docs/schemas/accounts.schema.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// The beginning of the first hour in seconds since 1970; `None` if the accounts include everything that was ever used.
    pub from: Option<u64>,
    /// The accounts in the order of sessions and members.
    pub accounts: Vec<Account>,
}
