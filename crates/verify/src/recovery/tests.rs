//! Cuts the power at each step of a replacement, on a model of a file system that keeps only what was made durable.
//!
//! After a cut, each change of a name since the last sync of its directory may be there or not, independent of the others, and a file
//! that was not synced has its earlier content, nothing, a part, or other bytes.

use std::collections::BTreeMap;

use super::*;

const TARGET: &str = "libexec/rosemary/rosemary-kernel";
const GOOD: &[u8] = b"the released kernel";
const BAD: &[u8] = b"the damaged kernel!";

#[derive(Debug, Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    is_synced: bool,
}

/// A change of a name: it leads to this inode, or to none.
type Renamed = Vec<(String, Option<usize>)>;

#[derive(Debug, Clone, Default)]
struct Model {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: Vec<Renamed>,
    /// The operations that succeed before the power is cut; `None`: all.
    left: Option<usize>,
    steps: usize,
}

impl Model {
    /// With this content of the target, which is durable.
    fn with(content: Option<&[u8]>) -> Self {
        let mut model = Self::default();
        if let Some(content) = content {
            model.write(TARGET, content, 0o755).unwrap();
            model.sync(TARGET).unwrap();
            model.sync_parent(TARGET).unwrap();
        }
        Self { steps: 0, ..model }
    }

    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        match &mut self.left {
            Some(0) => Err(io::Error::other("the power was cut")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, changes: Renamed) {
        for (name, inode) in &changes {
            match inode {
                Some(inode) => _ = self.names.insert(name.clone(), *inode),
                None => _ = self.names.remove(name),
            }
        }
        self.pending.push(changes);
    }

    /// All states in which the disk may be after the power was cut now.
    fn after_cut(&self) -> Vec<Self> {
        let mut states = Vec::new();
        for subset in 0..1_usize << self.pending.len() {
            for content in 0..4 {
                let mut state = Self { pending: Vec::new(), left: None, ..self.clone() };
                for (at, changes) in self.pending.iter().enumerate() {
                    if subset & (1 << at) != 0 {
                        for (name, inode) in changes {
                            match inode {
                                Some(inode) => _ = state.durable.insert(name.clone(), *inode),
                                None => _ = state.durable.remove(name),
                            }
                        }
                    }
                }
                for inode in state.inodes.iter_mut().filter(|it| !it.is_synced) {
                    inode.now = match content {
                        0 => inode.durable.clone(),
                        1 => Vec::new(),
                        2 => inode.now[..inode.now.len() / 2].to_vec(),
                        _ => inode.now.iter().map(|byte| !byte).collect(),
                    };
                }
                state.names.clone_from(&state.durable);
                states.push(state);
            }
        }
        states
    }

    fn content(&self, path: &str) -> Option<&[u8]> {
        Some(&self.inodes[*self.names.get(path)?].now)
    }
}

impl Disk for Model {
    fn make_parents(&mut self, _path: &str) -> io::Result<()> {
        self.step()
    }

    fn write(&mut self, path: &str, content: &[u8], _mode: u32) -> io::Result<()> {
        self.step()?;
        let inode = Inode { now: content.to_vec(), ..Inode::default() };
        self.inodes.push(inode);
        self.change(vec![(path.to_owned(), Some(self.inodes.len() - 1))]);
        Ok(())
    }

    fn link(&mut self, path: &str, target: &[u8]) -> io::Result<()> {
        self.write(path, target, 0)?;
        // The target of a link is part of its inode.
        self.sync(path)
    }

    fn sync(&mut self, path: &str) -> io::Result<()> {
        self.step()?;
        let inode = &mut self.inodes[self.names[path]];
        inode.durable.clone_from(&inode.now);
        inode.is_synced = true;
        Ok(())
    }

    fn read(&mut self, path: &str, _most: u64) -> io::Result<Vec<u8>> {
        self.step()?;
        self.content(path).map(<[u8]>::to_vec).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.step()?;
        let inode = self.names[from];
        self.change(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))]);
        Ok(())
    }

    fn sync_parent(&mut self, _path: &str) -> io::Result<()> {
        self.step()?;
        self.durable.clone_from(&self.names);
        self.pending.clear();
        Ok(())
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.step()?;
        self.change(vec![(path.to_owned(), None)]);
        Ok(())
    }
}

fn entry(mode: Option<u32>) -> Entry {
    Entry { path: TARGET.into(), mode, size: GOOD.len() as u64, sha256: package::sha256(GOOD) }
}

type Replacement = fn(&mut Model, &Entry, &[u8]) -> io::Result<()>;

/// Cuts the power at each step of a replacement. Returns how many states of the disk were seen, and the contents of the target that
/// are neither the old nor the new one.
fn cut_everywhere(old: Option<&[u8]>, mode: Option<u32>, by: Replacement) -> (usize, Vec<Vec<u8>>) {
    let (mut seen, mut torn) = (0, Vec::new());
    let mut whole = Model::with(old);
    by(&mut whole, &entry(mode), GOOD).unwrap();
    for left in 0..=whole.steps {
        let mut model = Model { left: Some(left), ..Model::with(old) };
        let is_done = by(&mut model, &entry(mode), GOOD).is_ok();
        assert_eq!(is_done, left == whole.steps);
        for mut state in model.after_cut() {
            seen += 1;
            let content = state.content(TARGET);
            if content != Some(GOOD) && (content != old || is_done) {
                torn.push(content.unwrap_or_default().to_vec());
            }
            by(&mut state, &entry(mode), GOOD).unwrap();
            for again in state.after_cut() {
                if again.content(TARGET) != Some(GOOD) {
                    torn.push(again.content(TARGET).unwrap_or_default().to_vec());
                }
            }
        }
    }
    (seen, torn)
}

#[test]
fn power_cut_leaves_old_or_new_file() {
    for old in [Some(BAD), None, Some(b"".as_slice())] {
        for mode in [Some(0o755), None] {
            let (seen, torn) = cut_everywhere(old, mode, replace);
            assert!(seen > 40, "{seen}");
            assert_eq!(torn, [[0_u8; 0]; 0], "{old:?}, {mode:?}");
        }
    }
}

/// As many write it: without making the content durable before the name.
fn careless(disk: &mut Model, entry: &Entry, content: &[u8]) -> io::Result<()> {
    disk.write("new", content, 0o755)?;
    disk.rename("new", &entry.path)?;
    disk.sync_parent(&entry.path)
}

#[test]
fn model_tears_a_file_that_was_not_synced() {
    assert!(!cut_everywhere(Some(BAD), Some(0o755), careless).1.is_empty());
}

#[test]
fn disk_that_returns_other_bytes_keeps_the_old_file() {
    #[derive(Debug)]
    struct Forgetful(Model);

    impl Disk for Forgetful {
        fn make_parents(&mut self, path: &str) -> io::Result<()> {
            self.0.make_parents(path)
        }
        fn write(&mut self, path: &str, content: &[u8], mode: u32) -> io::Result<()> {
            self.0.write(path, &content[1..], mode)
        }
        fn link(&mut self, path: &str, target: &[u8]) -> io::Result<()> {
            self.0.link(path, target)
        }
        fn sync(&mut self, path: &str) -> io::Result<()> {
            self.0.sync(path)
        }
        fn read(&mut self, path: &str, most: u64) -> io::Result<Vec<u8>> {
            self.0.read(path, most)
        }
        fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn sync_parent(&mut self, path: &str) -> io::Result<()> {
            self.0.sync_parent(path)
        }
        fn remove(&mut self, path: &str) -> io::Result<()> {
            self.0.remove(path)
        }
    }

    let mut disk = Forgetful(Model::with(Some(BAD)));
    let error = replace(&mut disk, &entry(Some(0o755)), GOOD).unwrap_err().to_string();
    assert!(error.contains("other bytes"), "{error}");
    assert_eq!(disk.0.content(TARGET), Some(BAD));
    assert_eq!(disk.0.names.len(), 1, "the new file was removed");
}
