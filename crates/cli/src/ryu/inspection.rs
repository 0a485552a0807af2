//! Findings of the interpreter in the source of apps before their start (`rosemary_ryu.beside`).

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;

use crate::readable::ensure_grantable;

/// The findings, each with its app.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Inspection {
    /// The first module that an app imports and that lies beside it.
    modules: Vec<(String, String)>,
    /// The environment variables that the apps read.
    variables: Vec<(String, String)>,
    /// The versions of OpenFlow that switches must speak, if the apps do not support the preferred one.
    openflow: Vec<String>,
    /// The apps with a web interface, as the command names them; `None` if the source takes too much to examine.
    pub(super) web: Option<Vec<String>>,
}

impl Inspection {
    /// Refuses apps that import modules beside them, which they could not read. `ryu-manager` would find the modules.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn refuse_beside(&self) -> anyhow::Result<()> {
        let Some((app, module)) = self.modules.first() else { return Ok(()) };
        let mut dirs = BTreeSet::new();
        for (app, _) in &self.modules {
            let file = std::path::absolute(app)?;
            dirs.extend(file.parent().map(Path::to_owned));
        }
        for dir in &dirs {
            ensure_grantable(dir, dir)
                .with_context(|| format!("{app} imports {module}, which lies beside it"))?;
        }
        let options = dirs.iter().map(|dir| format!("--python-path {}", dir.display()));
        bail!(
            "{app} imports {module}, which lies beside it, and the app may not read that directory; to allow it, add {}",
            options.collect::<Vec<_>>().join(" ")
        )
    }

    /// The versions of OpenFlow for switches, each known to the configuration. Empty if the apps support the preferred one.
    ///
    /// # Errors
    /// The interpreter has named an unknown version.
    pub(super) fn openflow(&self) -> anyhow::Result<Vec<String>> {
        for name in &self.openflow {
            name.parse::<openflow::Version>()
                .map_err(|_| anyhow!("rosemary-ryu names a version of OpenFlow that this release does not know: {name}; type: make python"))?;
        }
        Ok(self.openflow.clone())
    }

    /// A line for each variable that an app reads, that `is_set` has here, and that the app would not receive.
    pub(super) fn withheld<'a>(
        &'a self,
        is_given: impl Fn(&str) -> bool + 'a,
        is_set: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = String> + 'a {
        let withheld =
            self.variables.iter().filter(move |(_, name)| !is_given(name) && is_set(name));
        withheld.map(|(app, name)| {
            format!("{app} reads the environment variable {name}, and does not receive it; to pass it, add --env {name}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_beside_an_app_needs_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let app = dir.path().join("producer.py").to_string_lossy().into_owned();
        Inspection::default().refuse_beside().unwrap();
        let modules = vec![(app.clone(), "my_events".to_owned()), (app, "rules".to_owned())];
        let inspection = Inspection { modules, ..Inspection::default() };
        let error = inspection.refuse_beside().unwrap_err().to_string();
        assert!(error.contains("producer.py imports my_events"), "{error}");
        let option = format!("add --python-path {}", dir.path().display());
        assert!(error.ends_with(&option), "{error}");
    }

    #[test]
    fn withheld_variables_are_named_once_they_matter() {
        let variables =
            ["API_KEY", "GIVEN", "UNSET"].map(|it| ("app.py".to_owned(), it.to_owned()));
        let inspection = Inspection { variables: variables.into(), ..Inspection::default() };
        let lines: Vec<_> = inspection.withheld(|it| it == "GIVEN", |it| it != "UNSET").collect();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("app.py reads the environment variable API_KEY"), "{line}");
        assert!(line.ends_with("add --env API_KEY"), "{line}");
    }
}
