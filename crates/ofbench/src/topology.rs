//! Describes a network: the links between the ports of switches.
//!
//! A topology comes from a generator (`line:5`, `ring:5`, `mesh:4`, `tree:3,2`, `fat-tree:4`) or
//! from a file:
//!
//! ```text
//! # switches are numbered from 1 on; a link joins a port of one to a port of another
//! switches 3
//! link 1:1 2:1
//! link 2:2 3:1
//! ```

use std::collections::HashSet;
use std::path::Path;

use thiserror::Error;

/// Maximum number of switches.
const MAX_SWITCHES: usize = 10_000;

/// Maximum number of links per switch.
const MAX_LINKS: u16 = 1000;

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEnd {
    /// Index of the switch, from 0.
    pub switch: usize,
    /// Number of its port, from 1.
    pub port: u16,
}

/// A network of linked switches; see the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    switches: usize,
    links: Vec<[LinkEnd; 2]>,
}

/// Why a topology is invalid.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// Neither a generator nor a file has this name.
    #[error(
        "{0} is not a topology: expected line:N, ring:N, mesh:N, tree:DEPTH,FANOUT, fat-tree:K, or a file"
    )]
    Unknown(String),
    /// The sizes of a generator are out of range.
    #[error("{what}: expected {expected}")]
    Bounds {
        /// The given topology.
        what: String,
        /// The accepted sizes.
        expected: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {why}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// The error of the system.
        why: std::io::Error,
    },
    /// A line of the file is invalid.
    #[error("line {line}: {why}")]
    Line {
        /// Number of the line.
        line: usize,
        /// The reason.
        why: String,
    },
}

impl Topology {
    /// Creates `switches` switches without links.
    fn of(switches: usize) -> Self {
        Self { switches, links: Vec::new() }
    }

    /// Links two switches by the next free port of each.
    fn link(&mut self, a: usize, b: usize) {
        let ends = [a, b].map(|switch| LinkEnd { switch, port: self.ports(switch) + 1 });
        self.links.push(ends);
    }

    /// Links each switch to the next.
    pub fn line(switches: usize) -> Self {
        let mut line = Self::of(switches);
        (1..switches).for_each(|next| line.link(next - 1, next));
        line
    }

    /// Links the switches in a circle.
    pub fn ring(switches: usize) -> Self {
        let mut ring = Self::line(switches);
        if switches > 2 {
            ring.link(switches - 1, 0);
        }
        ring
    }

    /// Links each switch to every other.
    pub fn mesh(switches: usize) -> Self {
        let mut mesh = Self::of(switches);
        for a in 0..switches {
            (a + 1..switches).for_each(|b| mesh.link(a, b));
        }
        mesh
    }

    /// Builds a tree of `depth` levels with `fanout` children per switch.
    pub fn tree(depth: u32, fanout: usize) -> Self {
        let below = |level| fanout.pow(level);
        let mut tree = Self::of((0..depth).map(below).sum());
        for child in 1..tree.switches {
            tree.link((child - 1) / fanout, child);
        }
        tree
    }

    /// Builds a fat tree of `k`-port switches: `(k/2)^2` cores, then `k` pods of `k/2` aggregation
    /// and `k/2` edge switches (Al-Fares et al., SIGCOMM 2008).
    pub fn fat_tree(k: usize) -> Self {
        let half = k / 2;
        let cores = half * half;
        let mut tree = Self::of(cores + k * k);
        for pod in 0..k {
            let aggregating = cores + pod * k;
            for up in 0..half {
                (0..half).for_each(|core| tree.link(up * half + core, aggregating + up));
                (0..half).for_each(|edge| tree.link(aggregating + up, aggregating + half + edge));
            }
        }
        tree
    }

    /// Creates the topology of a command-line argument: a generator with sizes, or a file.
    ///
    /// # Errors
    /// [`TopologyError`] with the accepted values.
    pub fn named(word: &str) -> Result<Self, TopologyError> {
        let bounds = |expected| TopologyError::Bounds { what: word.into(), expected };
        if let Some((name, sizes)) = word.split_once(':') {
            let sizes: Option<Vec<usize>> =
                sizes.split(',').map(|size| size.parse().ok()).collect();
            let topology = match (name, sizes.as_deref()) {
                ("line", Some(&[n @ 1..=MAX_SWITCHES])) => Some(Self::line(n)),
                ("ring", Some(&[n @ 1..=MAX_SWITCHES])) => Some(Self::ring(n)),
                ("mesh", Some(&[n @ 1..=100])) => Some(Self::mesh(n)),
                ("tree", Some(&[depth @ 1..=13, fanout @ 1..=100])) => {
                    let depth = u32::try_from(depth).unwrap_or(1);
                    let most = (0..depth).try_fold(0_usize, |sum, level| {
                        sum.checked_add(fanout.checked_pow(level)?)
                    });
                    most.filter(|most| *most <= MAX_SWITCHES).map(|_| Self::tree(depth, fanout))
                }
                ("fat-tree", Some(&[k @ 2..=48])) if k % 2 == 0 => Some(Self::fat_tree(k)),
                _ => None,
            };
            match (name, topology) {
                (_, Some(topology)) => return Ok(topology),
                ("line" | "ring", _) => return Err(bounds("1 to 10000 switches")),
                ("mesh", _) => return Err(bounds("1 to 100 switches")),
                ("tree", _) => {
                    return Err(bounds(
                        "a depth up to 13 and a fanout up to 100, 10000 switches in all",
                    ));
                }
                ("fat-tree", _) => return Err(bounds("an even number of ports from 2 to 48")),
                _ => {}
            }
        }
        let path = Path::new(word);
        if !path.is_file() {
            return Err(TopologyError::Unknown(word.into()));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|why| TopologyError::Unreadable { path: word.into(), why })?;
        Self::parse(&text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`TopologyError::Line`] with the line and the reason.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let mut topology = Self::of(0);
        let mut taken = HashSet::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |why: &str| TopologyError::Line { line: number + 1, why: why.into() };
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["switches", count] => {
                    let count =
                        count.parse().ok().filter(|count| (1..=MAX_SWITCHES).contains(count));
                    let count = count.ok_or_else(|| wrong("expected 1 to 10000 switches"))?;
                    if topology.switches > 0 {
                        return Err(wrong("duplicate `switches` line"));
                    }
                    topology.switches = count;
                }
                ["link", a, b] => {
                    let ends = [*a, *b].map(|end| topology.end(end));
                    let [Some(a), Some(b)] = ends else {
                        return Err(wrong(
                            "expected link SWITCH:PORT SWITCH:PORT, with switches up to the declared number and ports \
                             from 1 to 1000",
                        ));
                    };
                    if a.switch == b.switch || !taken.insert(a) || !taken.insert(b) {
                        return Err(wrong("a port takes one link, and to another switch"));
                    }
                    topology.links.push([a, b]);
                }
                _ => return Err(wrong("expected `switches N` or `link SWITCH:PORT SWITCH:PORT`")),
            }
        }
        if topology.switches == 0 {
            let why = "missing `switches N` line".into();
            return Err(TopologyError::Line { line: text.lines().count(), why });
        }
        Ok(topology)
    }

    fn end(&self, text: &str) -> Option<LinkEnd> {
        let (switch, port) = text.split_once(':')?;
        let switch: usize =
            switch.parse().ok().filter(|number| (1..=self.switches).contains(number))?;
        let port = port.parse().ok().filter(|port| (1..=MAX_LINKS).contains(port))?;
        Some(LinkEnd { switch: switch - 1, port })
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        self.switches
    }

    /// Returns the links.
    pub fn links(&self) -> &[[LinkEnd; 2]] {
        &self.links
    }

    /// Returns the highest linked port of a switch; 0 if it has no link.
    pub fn ports(&self, switch: usize) -> u16 {
        let ends = self.links.iter().flatten().filter(|end| end.switch == switch);
        ends.map(|end| end.port).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts switches, links, and switches reachable from the first.
    fn shape(topology: &Topology) -> (usize, usize, usize) {
        let mut seen = HashSet::from([0]);
        for _ in 0..topology.switches() {
            for [a, b] in topology.links() {
                if seen.contains(&a.switch) || seen.contains(&b.switch) {
                    seen.extend([a.switch, b.switch]);
                }
            }
        }
        let ports: HashSet<&LinkEnd> = topology.links().iter().flatten().collect();
        assert_eq!(ports.len(), 2 * topology.links().len(), "a port with two links");
        (topology.switches(), topology.links().len(), seen.len())
    }

    #[test]
    fn generators_build_their_topologies() {
        for (word, switches, links) in [
            ("line:1", 1, 0),
            ("line:5", 5, 4),
            ("ring:2", 2, 1),
            ("ring:5", 5, 5),
            ("mesh:4", 4, 6),
            ("tree:3,2", 7, 6),
            ("tree:1,9", 1, 0),
            // 4 cores, 4 pods of 4; each pod has 4 links to the cores and 4 of its own.
            ("fat-tree:4", 20, 32),
        ] {
            let topology = Topology::named(word).unwrap();
            assert_eq!(shape(&topology), (switches, links, switches), "{word}");
        }
        let fat = Topology::fat_tree(4);
        // Edge switches keep half of their ports for hosts.
        let ports: Vec<u16> = (0..20).map(|switch| fat.ports(switch)).collect();
        assert_eq!(ports[..8], [4, 4, 4, 4, 4, 4, 2, 2]);
    }

    #[test]
    fn errors_in_a_file_name_their_line() {
        let text = "# three\nswitches 3\n\nlink 1:1 2:1 # first\nlink 2:2 3:7\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(shape(&topology), (3, 2, 3));
        assert_eq!(topology.ports(2), 7);
        for (text, line) in [
            ("", "line 0"),
            ("switches 0", "line 1"),
            ("switches 2\nswitches 2", "line 2"),
            ("link 1:1 2:1\nswitches 2", "line 1"),
            ("switches 2\nlink 1:1 3:1", "line 2"),
            ("switches 2\nlink 1:0 2:1", "line 2"),
            ("switches 2\nlink 1:1 1:2", "line 2"),
            ("switches 3\nlink 1:1 2:1\nlink 3:1 2:1", "line 3"),
            ("switches 2\nlnk 1:1 2:1", "line 2"),
        ] {
            let error = Topology::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(line), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_rejected() {
        for word in
            ["line:0", "line:x", "ring:10001", "mesh:101", "tree:13,100", "fat-tree:3", "tree:2"]
        {
            let error = Topology::named(word).unwrap_err();
            assert!(matches!(error, TopologyError::Bounds { .. }), "{error}");
        }
        assert!(matches!(Topology::named("star:3"), Err(TopologyError::Unknown(_))));
    }
}
