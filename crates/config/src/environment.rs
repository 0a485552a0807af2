//! Reads `env` of an `[[app]]`: environment variables of the app's process.
//!
//! The zone sets the variables when it confines itself (`sys/src/sandbox`), after the start of its process. So variables that are
//! read at the start, such as `LD_PRELOAD`, would have no effect, and are refused. Of the others, apps in Python may have all:
//! libraries of Python have many of their own. Other apps may have some of the C library and of Rust, and names of their own.
//!
//! Apps of Ryu once set variables by options, as `options = { "env.NAME" = "value" }`. Such a variable joins those of `env`, with a
//! notice.

use std::collections::BTreeMap;

use control::hosting::Hosting;

use super::suggestion::nearest;
use super::value::{Table, Value};

/// Environment variables by name.
pub type Environment = BTreeMap<String, String>;

/// The names that are allowed, besides those that begin with [`OWN_PREFIX`].
const NAMES: [&str; 5] = ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE", "TZ", "LANG", "LC_ALL"];

/// The beginning of names whose meaning the app defines itself.
const OWN_PREFIX: &str = "APP_";

/// The beginnings of names that the dynamic linker, the C library, Python and Rosemary read at the start of the process.
const READ_AT_START: [&str; 5] = ["LD_", "GLIBC_", "MALLOC_", "PYTHON", "ROSEMARY_"];

/// The beginning of an option that sets a variable of an app of Ryu.
pub(super) const OPTION_PREFIX: &str = "env.";

/// Maximum number of variables of an app.
const MOST_VARIABLES: usize = 32;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 64;

/// Maximum length of a value, in bytes.
const LONGEST_VALUE: usize = 1024;

/// Why an app in the kernel can have no environment, with the remedy.
pub const ENV_IN_KERNEL: &str = "an app in the kernel can have no env, as all apps there share the kernel's; run it \
                                 with host = \"user\", or remove env";

/// A variable in the text: position, name and value.
type Entry<'a> = (usize, &'a str, Value<'a>);

/// Reads the variables of an app with this hosting.
pub(super) fn read(table: &Table<'_>, host: Hosting) -> Environment {
    let mut entries = of_env(table, host);
    for option in of_options(table, host) {
        let (at, name, _) = option;
        if entries.iter().any(|(_, other, _)| *other == name) {
            let what =
                format!("env sets {name}, too; remove \"{OPTION_PREFIX}{name}\" from options");
            table.findings.refuse(at, what);
        } else {
            entries.push(option);
        }
    }
    let len = entries.len();
    if len > MOST_VARIABLES
        && let Some(first) = table.get("env").or_else(|| table.get("options"))
    {
        first.refuse_as(format!("env has {len} variables; expected at most {MOST_VARIABLES}"));
        return Environment::new();
    }
    let variable = |(at, name, value): Entry<'_>| {
        if let Some(what) = refusal(name, host.has_any_env) {
            table.findings.refuse(at, what);
            return None;
        }
        let expected = format!("text of at most {LONGEST_VALUE} bytes without a zero byte");
        let text = value.read(&expected, |it| it.text().filter(|text| fits(text)))?;
        Some((name.to_owned(), text.to_owned()))
    };
    entries.into_iter().filter_map(variable).collect()
}

/// Returns the entries of the table `env`, if there is one.
fn of_env<'a>(table: &Table<'a>, host: Hosting) -> Vec<Entry<'a>> {
    let Some(env) = table.get("env") else { return Vec::new() };
    match env.entries() {
        None => {
            env.refuse("a table of environment variables, such as { RUST_BACKTRACE = \"1\" }");
            Vec::new()
        }
        Some(entries) if host.is_in_kernel() && !entries.is_empty() => {
            env.refuse_as(ENV_IN_KERNEL);
            Vec::new()
        }
        Some(entries) => entries,
    }
}

/// Returns the variables among the options of an app of Ryu, with a notice about each. Refuses them for other hostings, whose
/// options never set variables.
fn of_options<'a>(table: &Table<'a>, host: Hosting) -> Vec<Entry<'a>> {
    if !host.keys.contains(&"options") {
        return Vec::new(); // options have been refused
    }
    let options = table.get("options").and_then(|it| it.entries()).unwrap_or_default();
    let mut variables = Vec::new();
    for (at, option, value) in options {
        let Some(name) = option.strip_prefix(OPTION_PREFIX) else { continue };
        let instead =
            format!("{option:?} of options; write the variable as env = {{ {name} = ... }}");
        if host.options_set_env {
            table.findings.advise(at, format!("a later version will not accept {instead}"));
            variables.push((at, name, value));
        } else {
            table.findings.refuse(at, format!("no variable is set by {instead}"));
        }
    }
    variables
}

/// Checks a variable for an app in Python.
///
/// # Errors
/// The app cannot have it; the text says why.
pub fn check_variable_of_python(name: &str, value: &str) -> Result<(), String> {
    if let Some(what) = refusal(name, true) {
        return Err(what);
    }
    if fits(value) {
        return Ok(());
    }
    Err(format!("the value of {name} must have at most {LONGEST_VALUE} bytes, and no zero byte"))
}

/// Whether a text may be the value of a variable.
fn fits(value: &str) -> bool {
    value.len() <= LONGEST_VALUE && !value.contains('\0')
}

/// Returns why an app cannot have the variable `name`, if so.
fn refusal(name: &str, has_any: bool) -> Option<String> {
    let fits = name.len() <= LONGEST_NAME;
    let is_own = |rest: &str| {
        let fits = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_';
        !rest.is_empty() && rest.bytes().all(fits)
    };
    let is_of_any = NAMES.contains(&name) || name.strip_prefix(OWN_PREFIX).is_some_and(is_own);
    let is_variable = name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
        && name.starts_with(|it: char| !it.is_ascii_digit());
    let is_late = READ_AT_START.iter().any(|start| name.starts_with(start));
    if fits && (is_of_any || (has_any && is_variable && !is_late)) {
        return None;
    }
    let meant = nearest(name, NAMES).map_or_else(String::new, |it| format!("did you mean {it}? "));
    let shown: String = name.chars().take(LONGEST_NAME).collect();
    Some(if has_any {
        format!(
            "{shown:?} is no variable that an app in Python can have; {meant}allowed are names of letters, digits and underscores, at \
             most {LONGEST_NAME} long, that do not begin with {}: those are read at the start of the process, before env is set{}",
            READ_AT_START.join(", "),
            if name == "PYTHONPATH" { "; use python-path" } else { "" }
        )
    } else {
        format!(
            "{shown:?} is no variable that an app can have; {meant}allowed are {}, and names of capital letters, digits and \
             underscores that begin with {OWN_PREFIX}, at most {LONGEST_NAME} long",
            NAMES.join(", ")
        )
    })
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
        assert_eq!(environment(&variables(MOST_VARIABLES)).unwrap().len(), MOST_VARIABLES);
    }

    #[test]
    fn apps_in_python_may_have_other_variables() {
        let ryu = "host = \"ryu\"\nobject = \"a.b\"\n";
        let read = environment(&format!("{ryu}env = {{ FAUCET_LOG = \"x\", http_proxy = \"y\" }}"));
        let expected = [("FAUCET_LOG", "x"), ("http_proxy", "y")];
        let expected: Environment = expected.map(|(name, it)| (name.into(), it.into())).into();
        assert_eq!(read, Ok(expected));
        for (keys, part) in [
            ("env = { LD_PRELOAD = \"\" }", "\"LD_PRELOAD\" is no variable"),
            ("env = { PYTHONPATH = \"\" }", "before env is set; use python-path"),
            ("env = { \"A=B\" = \"\" }", "names of letters"),
            ("env = { \"\" = \"\" }", "names of letters"),
        ] {
            let error = environment(&format!("{ryu}{keys}")).unwrap_err();
            assert!(error.starts_with("/r.toml:5:9: ") && error.contains(part), "{keys}: {error}");
        }
    }

    #[test]
    fn option_of_ryu_that_sets_a_variable_joins_env_with_a_notice() {
        let text = "[[app]]\nname = \"a\"\nhost = \"ryu\"\nobject = \"a.b\"\nenv = { TZ = \"UTC\" }\n\
                    options = { \"env.FAUCET_LOG\" = \"secret\", other = \"1\" }\n";
        let config = Config::parse("/r.toml".into(), text.into()).unwrap();
        let app = config.app("a").unwrap();
        assert_eq!((app.env["FAUCET_LOG"].as_str(), app.env["TZ"].as_str()), ("secret", "UTC"));
        let options: Vec<&String> = app.host_keys.options.keys().collect();
        assert_eq!(options, ["other"]);
        let [notice] = &config.notices[..] else { panic!("{:?}", config.notices) };
        let remedy =
            "\"env.FAUCET_LOG\" of options; write the variable as env = { FAUCET_LOG = ... }";
        assert!(notice.starts_with("/r.toml:6:13: ") && notice.ends_with(remedy), "{notice}");
    }

    #[test]
    fn option_that_sets_no_variable_is_refused() {
        let option = "options = { \"env.TZ\" = \"UTC\" }";
        for (keys, part) in [
            ("host = \"python\"\nobject = \"a.py\"", "no variable is set by \"env.TZ\" of options"),
            ("host = \"ryu\"\nenv = { TZ = \"UTC\" }", "env sets TZ, too; remove \"env.TZ\""),
        ] {
            let error = environment(&format!("{keys}\n{option}")).unwrap_err();
            assert!(error.starts_with("/r.toml:5:13: ") && error.contains(part), "{keys}: {error}");
        }
        let error =
            environment("host = \"ryu\"\noptions = { \"env.LD_PRELOAD\" = \"\" }").unwrap_err();
        assert!(error.contains("\"LD_PRELOAD\" is no variable"), "{error}");
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
            (variables(MOST_VARIABLES + 1), "3:1", "33 variables; expected at most 32"),
        ] {
            let error = environment(&keys).unwrap_err();
            let is_there = error.starts_with(&format!("/r.toml:{place}: "));
            assert!(is_there && error.contains(part), "{keys}: {error}");
        }
    }
}
