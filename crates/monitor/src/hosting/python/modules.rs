//! Finds the files of modules that an app in Python imports, so that a change of one is a change of the app.
//!
//! The monitor reads the lines with `import` and runs nothing. It looks in the directories of `python-path`, as modules of the
//! interpreter change only with an installation; the module that the configuration names may be among those, too. An import that
//! is computed is not found.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use crate::hosting::OtherFiles;
use crate::installation::read_file;
use crate::object::Object;
use supervisor::files::ModuleHashes;
use supervisor::spec::AppSpec;

/// The most modules of an app that are read; those of a large package are beyond it.
const MOST_MODULES: usize = 64;

/// The most bytes of a module; a larger one is left out.
const MOST_BYTES: u64 = 1 << 20;

/// Where an app in Python begins, and where the modules are that it imports.
#[derive(Debug, Clone)]
pub(super) struct Modules {
    /// The app's file or module; the file is no module of its own.
    first: First,
    /// The directories of `python-path`.
    path: Vec<PathBuf>,
}

#[derive(Debug, Clone)]
enum First {
    File(PathBuf),
    Module {
        file: Option<PathBuf>,
    },
    /// An archive has all modules.
    Archive,
}

impl Modules {
    /// Those of an app with this object; the interpreter's directories may have the module that the configuration names.
    pub(super) fn of(spec: &AppSpec, object: &Object) -> Self {
        let path = &spec.keys.host_keys.path;
        let first = match object {
            Object::File(_) => First::File(object.path().to_owned()),
            Object::Module { name, .. } => {
                let name = name.to_string_lossy();
                let own = name.replace('.', "/");
                let mut dirs = path.iter().chain(&spec.runtime.modules);
                First::Module { file: dirs.find_map(|dir| file_of(&dir.join(&own))) }
            }
            Object::Packaged { .. } | Object::Unusable { .. } => First::Archive,
        };
        Self { first, path: path.clone() }
    }

    /// The files that the text of a module names.
    fn imports(&self, file: &Path, text: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for name in names(text) {
            let relative = name.trim_start_matches('.');
            let levels = name.len() - relative.len();
            if levels == 0 {
                let dirs = self.path.iter().map(|dir| files_of(dir, relative));
                found.extend(dirs.into_iter().find(|files| !files.is_empty()).unwrap_or_default());
            } else if let Some(dir) = file.ancestors().nth(levels) {
                found.extend(files_of(dir, relative));
            }
        }
        found
    }
}

impl OtherFiles for Modules {
    fn read(&self) -> ModuleHashes {
        let mut contents = ModuleHashes::new();
        let mut waiting = Vec::new();
        match &self.first {
            First::File(file) => {
                waiting.extend(read_text(file).map(|text| self.imports(file, &text)));
            }
            First::Module { file } => waiting.push(file.iter().cloned().collect()),
            First::Archive => {}
        }
        while let Some(files) = waiting.pop() {
            for file in files {
                if contents.len() >= MOST_MODULES || contents.contains_key(&file) {
                    continue;
                }
                let Some(text) = read_text(&file) else { continue };
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                waiting.push(self.imports(&file, &text));
                contents.insert(file, hasher.finish());
            }
        }
        contents
    }
}

fn read_text(file: &Path) -> Option<String> {
    String::from_utf8(read_file(file, MOST_BYTES).ok()?).ok()
}

/// The file of a module at this path without extension, or that of the package there.
fn file_of(at: &Path) -> Option<PathBuf> {
    [at.join("__init__.py"), at.with_extension("py")].into_iter().find(|file| file.is_file())
}

/// The files of a module below a directory of the import path: those of the packages that contain it, and its own. Missing files
/// are left out, as the last part of a name may be that of a function.
fn files_of(dir: &Path, name: &str) -> Vec<PathBuf> {
    let (mut at, mut files) = (dir.to_owned(), Vec::new());
    for part in name.split('.').filter(|part| !part.is_empty()) {
        at.push(part);
        files.extend(file_of(&at));
    }
    files
}

/// The modules that a text may import: `a.b` of `import a.b` and of `from a import b`, with the dots of a relative name.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = without_comment(line).to_owned();
        if !line.starts_with("import ") && !line.starts_with("from ") {
            continue;
        }
        while line.ends_with('\\') || (line.contains('(') && !line.contains(')')) {
            let Some(next) = lines.next() else { break };
            line = format!("{} {}", line.trim_end_matches('\\'), without_comment(next));
        }
        let (parent, list) = match line.strip_prefix("from ") {
            Some(rest) => match rest.split_once(" import ").or_else(|| rest.split_once(" import("))
            {
                Some((parent, list)) => (parent.trim(), list),
                None => continue,
            },
            None => ("", line.trim_start_matches("import ")),
        };
        if !parent.is_empty() {
            names.push(parent.to_owned());
        }
        for item in list.split([',', '(', ')']) {
            let Some(name) = item.split_whitespace().next().filter(|name| is_name(name)) else {
                continue;
            };
            let dot = if parent.is_empty() || parent.ends_with('.') { "" } else { "." };
            names.push(format!("{parent}{dot}{name}"));
        }
    }
    names
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// Whether a text consists of names and dots, so that it leads to no other directory.
fn is_name(text: &str) -> bool {
    text.chars().all(|it| it.is_alphanumeric() || it == '_' || it == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_forms_are_found() {
        let text = "import os, a.b as c\n    from x import (y,  # a comment\n        z as w)\nfrom . import near\n\
                    from .sub import it\nfrom p import q, \\\n  r\nfrom s import *\n# import no\nimported = 1\nfrom(\n";
        let expected = [
            "os", "a.b", "x", "x.y", "x.z", ".", ".near", ".sub", ".sub.it", "p", "p.q", "p.r", "s",
        ];
        assert_eq!(names(text), expected);
        assert_eq!(names("import ../../etc/passwd\nimport /etc"), [""; 0]);
    }

    /// Writes these files below a new directory.
    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        dir
    }

    fn modules(first: First, dir: &Path) -> Modules {
        Modules { first, path: vec![dir.to_owned()] }
    }

    #[test]
    fn modules_of_modules_are_read_and_change() {
        let dir = written(&[
            ("app.py", "import helper\nimport os\n"),
            ("helper.py", "from package.inner import value\nimport app\n"),
            ("package/__init__.py", ""),
            ("package/inner.py", "from . import beside\nfrom .. import helper\n"),
            ("package/beside.py", "import helper\n"),
            ("other.py", ""),
        ]);
        let of = modules(First::File(dir.path().join("app.py")), dir.path());
        let contents = of.read();
        let relative = |file: &PathBuf| file.strip_prefix(dir.path()).unwrap().to_owned();
        let found: Vec<PathBuf> = contents.keys().map(relative).collect();
        let expected =
            ["app.py", "helper.py", "package/__init__.py", "package/beside.py", "package/inner.py"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(of.read(), contents);
        std::fs::write(dir.path().join("package/beside.py"), "import helper\n\n").unwrap();
        assert_ne!(of.read(), contents);
    }

    #[test]
    fn module_of_the_configuration_is_among_them() {
        let dir =
            written(&[("ryu/app/hub.py", "from ryu.base import nothing\n"), ("ryu/x.py", "")]);
        let file = file_of(&dir.path().join("ryu/app/hub"));
        assert_eq!(file, Some(dir.path().join("ryu/app/hub.py")));
        let contents = modules(First::Module { file: file.clone() }, dir.path()).read();
        assert_eq!(contents.into_keys().collect::<Vec<_>>(), [file.unwrap()]);
        assert!(modules(First::Archive, dir.path()).read().is_empty());
    }

    #[test]
    fn modules_are_bounded() {
        let many: Vec<String> = (0..100).map(|number| format!("m{number}.py")).collect();
        let imports: Vec<String> = (0..100).map(|number| format!("import m{number}")).collect();
        let imports = imports.join("\n");
        let mut files: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "")).collect();
        files.push(("app.py", &imports));
        let dir = written(&files);
        let of = modules(First::File(dir.path().join("app.py")), dir.path());
        assert_eq!(of.read().len(), MOST_MODULES);
    }
}
