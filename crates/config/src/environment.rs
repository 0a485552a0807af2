//! Reads `env` of an `[[app]]`: environment variables of the app's process.
//!
//! Only harmless names are allowed. The dynamic linker and the C library obey many others, such as `LD_PRELOAD`. The zone sets
//! the variables when it confines itself (`sys/src/sandbox`), so such a variable would come too late for the zone itself.

use std::collections::BTreeMap;

use control::app::Hosting;

use super::suggestion::nearest;
use super::value::{Table, Value};

/// Environment variables by name.
pub type Environment = BTreeMap<String, String>;

/// The names that are allowed, besides those that begin with [`OWN_PREFIX`].
const NAMES: [&str; 5] = ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE", "TZ", "LANG", "LC_ALL"];

/// The beginning of names whose meaning the app defines itself.
const OWN_PREFIX: &str = "APP_";

/// Maximum number of variables of an app.
const MOST: usize = 32;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 64;

/// Maximum length of a value, in bytes.
const LONGEST_VALUE: usize = 1024;

/// Why an app in the kernel can have no environment, with the remedy.
pub const ENV_IN_KERNEL: &str = "an app in the kernel can have no env, as all apps there share the kernel's; run it \
                                 with host = \"user\", or remove env";

/// Reads the table `env` of an app with this hosting, if there is one.
pub(super) fn read(table: &Table<'_>, host: Hosting) -> Environment {
    let Some(env) = table.get("env") else { return Environment::new() };
    let Some(entries) = env.entries() else {
        env.refuse("a table of environment variables, such as { RUST_BACKTRACE = \"1\" }");
        return Environment::new();
    };
    if host == Hosting::Kernel && !entries.is_empty() {
        env.refuse_as(ENV_IN_KERNEL);
        return Environment::new();
    }
    if entries.len() > MOST {
        let len = entries.len();
        env.refuse_as(format!("env has {len} variables; expected at most {MOST}"));
        return Environment::new();
    }
    let variable = |(at, name, value): &(usize, &str, Value<'_>)| {
        if !is_allowed(name) {
            table.findings.refuse(*at, refusal(name));
            return None;
        }
        let expected = format!("text of at most {LONGEST_VALUE} bytes without a zero byte");
        let fits = |text: &&str| text.len() <= LONGEST_VALUE && !text.contains('\0');
        let text = value.read(&expected, |it| it.text().filter(fits))?;
        Some(((*name).to_owned(), text.to_owned()))
    };
    entries.iter().filter_map(variable).collect()
}

fn is_allowed(name: &str) -> bool {
    let is_own = |rest: &str| {
        let fits = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_';
        !rest.is_empty() && name.len() <= LONGEST_NAME && rest.bytes().all(fits)
    };
    NAMES.contains(&name) || name.strip_prefix(OWN_PREFIX).is_some_and(is_own)
}

fn refusal(name: &str) -> String {
    let meant = nearest(name, NAMES).map_or_else(String::new, |it| format!("did you mean {it}? "));
    let shown: String = name.chars().take(LONGEST_NAME).collect();
    format!(
        "{shown:?} is no variable that an app can have; {meant}allowed are {}, and names of capital letters, digits and \
         underscores that begin with {OWN_PREFIX}, at most {LONGEST_NAME} long",
        NAMES.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    /// Reads the environment of an app with these keys, which begin in the third line.
    fn environment(keys: &str) -> Result<Environment, String> {
        let text = format!("[[app]]\nname = \"a\"\n{keys}");
        let config = Config::parse("/r.toml".into(), text).map_err(|error| error.to_string())?;
        Ok(config.app("a").unwrap().env.clone())
    }

    /// A table with this number of variables.
    fn variables(count: usize) -> String {
        let lines: Vec<String> = (0..count).map(|number| format!("APP_{number} = \"\"")).collect();
        format!("[app.env]\n{}", lines.join("\n"))
    }

    #[test]
    fn allowed_variables_are_read_in_both_notations() {
        assert_eq!(environment(""), Ok(Environment::new()));
        let expected = [("APP_COLOUR", "blue"), ("RUST_BACKTRACE", "1")];
        let expected: Environment = expected.map(|(name, it)| (name.into(), it.into())).into();
        let inline = "env = { RUST_BACKTRACE = \"1\", APP_COLOUR = \"blue\" }";
        assert_eq!(environment(inline), Ok(expected.clone()));
        let table = "[app.env]\nRUST_BACKTRACE = \"1\"\nAPP_COLOUR = \"blue\"";
        assert_eq!(environment(table), Ok(expected));
        assert_eq!(environment(&variables(MOST)).unwrap().len(), MOST);
    }

    #[test]
    fn mistake_names_its_place_and_the_allowed_variables() {
        let long = "x".repeat(LONGEST_VALUE + 1);
        for (keys, place, part) in [
            ("env = { LD_PRELOAD = \"/x.so\" }".to_owned(), "3:9", "\"LD_PRELOAD\" is no"),
            (
                "env = { TZ = \"\", LD_LIBRARY_PATH = \"/\" }".into(),
                "3:18",
                "allowed are RUST_BACK",
            ),
            ("env = { GLIBC_TUNABLES = \"\" }".into(), "3:9", "that begin with APP_"),
            ("env = { ROSEMARY_LOG = \"debug\" }".into(), "3:9", "\"ROSEMARY_LOG\" is no"),
            ("env = { RUST_BACKTRACES = \"1\" }".into(), "3:9", "did you mean RUST_BACKTRACE?"),
            ("env = { APP_ = \"\" }".into(), "3:9", "\"APP_\" is no"),
            ("env = { \"APP_A=B\" = \"\" }".into(), "3:9", "\"APP_A=B\" is no"),
            ("env = { APP_a = \"\" }".into(), "3:9", "\"APP_a\" is no"),
            (format!("env = {{ APP_{} = \"\" }}", "A".repeat(61)), "3:9", "at most 64 long"),
            ("env = { TZ = 1 }".into(), "3:14", "TZ is 1; expected text"),
            ("env = { APP_X = \"a\\u0000b\" }".into(), "3:17", "without a zero byte"),
            (format!("env = {{ APP_X = \"{long}\" }}"), "3:17", "at most 1024 bytes"),
            ("env = [\"TZ\"]".into(), "3:7", "env is a list; expected a table"),
            ("host = \"kernel\"\nenv = { TZ = \"\" }".into(), "4:7", "share the kernel's"),
            (variables(MOST + 1), "3:1", "33 variables; expected at most 32"),
        ] {
            let error = environment(&keys).unwrap_err();
            let is_there = error.starts_with(&format!("/r.toml:{place}: "));
            assert!(is_there && error.contains(part), "{keys}: {error}");
        }
    }
}
