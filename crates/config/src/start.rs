//! Reads what is checked before programs run: the table `[start]`.

use super::value::Table;

/// The keys of `[start]`.
pub const START_KEYS: [&str; 1] = ["verify"];

/// The reaction to a file that differs from the release: `start.verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Nothing is checked.
    Off,
    /// It is used, and reported.
    Report,
    /// It is replaced from the recovery copy, or not used.
    Require,
}

impl Verify {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Report => "report",
            Self::Require => "require",
        }
    }

    /// The policy with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Off, Self::Report, Self::Require].into_iter().find(|it| it.name() == name)
    }
}

/// Reads `[start]` of the file `top`.
pub(super) fn read(top: &Table<'_>) -> Option<Verify> {
    let start = top.get("start").and_then(|it| it.table("[start]", &START_KEYS))?;
    start.read("verify", "\"require\", \"report\" or \"off\"", |it| Verify::named(it.text()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn verify_is_one_of_three_words() {
        let verify = |value: &str| {
            let text = format!("[start]\nverify = {value}\n");
            let config = Config::parse("/r.toml".into(), text);
            config.map(|it| it.verify).map_err(|it| it.to_string())
        };
        for policy in [Verify::Off, Verify::Report, Verify::Require] {
            assert_eq!(verify(&format!("{:?}", policy.name())), Ok(Some(policy)));
        }
        assert_eq!(Config::default().verify, None);
        let error = verify("true").unwrap_err();
        assert!(error.contains("/r.toml:2:") && error.contains("\"report\""), "{error}");
    }
}
