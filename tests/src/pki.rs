//! Keys for tests, created with `rosemary pki` as an operator would.

use std::path::{Path, PathBuf};

use cli::lab::{Lab, LabError, Switch};
use serde_json::Value;

use crate::rosemary_binary;

/// A directory of keys.
#[derive(Debug)]
pub struct Pki<'lab> {
    lab: &'lab Lab,
    dir: String,
}

/// The TLS files of a switch.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the files")]
pub struct SwitchKeys {
    pub key: PathBuf,
    pub cert: PathBuf,
    pub ca_cert: PathBuf,
    /// Commands printed by `rosemary pki switch`.
    pub commands: Vec<String>,
}

impl<'lab> Pki<'lab> {
    /// Runs `rosemary pki init` in a directory of the lab.
    ///
    /// # Errors
    /// It failed.
    pub fn init(lab: &'lab Lab, name: &str) -> Result<Self, LabError> {
        let dir = lab.files().join(name).display().to_string();
        rosemary(lab, &["pki", "init", "--dir", &dir])?;
        Ok(Self { lab, dir })
    }

    /// The default directory of root, where `rosemary pki init` has made the keys.
    pub fn default_dir(lab: &'lab Lab) -> Self {
        Self { lab, dir: "/etc/rosemary/pki".to_owned() }
    }

    /// Returns the directory.
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// Returns the path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.dir).join(name)
    }

    /// Runs `rosemary pki switch NAME ARGS...`.
    ///
    /// # Errors
    /// It failed.
    pub fn switch(&self, name: &str, args: &[&str]) -> Result<SwitchKeys, LabError> {
        let args = [&["pki", "switch", name, "--json", "--dir", &self.dir], args].concat();
        let output = rosemary(self.lab, &args)?;
        let made: Value = serde_json::from_str(&output).map_err(|error| LabError::Output {
            program: "rosemary pki switch --json",
            reason: error.to_string(),
            output: output.clone(),
        })?;
        let path = |key: &str| PathBuf::from(made[key].as_str().unwrap_or_default());
        let commands = made["commands"].as_array().into_iter().flatten();
        Ok(SwitchKeys {
            key: path("key"),
            cert: path("cert"),
            ca_cert: path("ca_cert"),
            commands: commands.filter_map(Value::as_str).map(Into::into).collect(),
        })
    }
}

impl SwitchKeys {
    /// Makes `switch` present them.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn give_to(&self, switch: &Switch<'_>) -> Result<(), LabError> {
        switch.connect_over_tls(&self.key, &self.cert, &self.ca_cert)
    }
}

fn rosemary(lab: &Lab, args: &[&str]) -> Result<String, LabError> {
    lab.run(&rosemary_binary().display().to_string(), args)
}
