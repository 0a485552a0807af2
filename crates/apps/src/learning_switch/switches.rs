//! The table of each switch.

use rosemary_sdk::Dpid;

use super::hosts::Hosts;

/// In the order of their DPIDs, so that finding one costs little, whatever DPIDs there are.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    tables: Vec<(Dpid, Hosts)>,
    /// Where the last one was found.
    last: usize,
}

impl Switches {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
    }

    /// Forgets one.
    pub(crate) fn remove(&mut self, dpid: Dpid) {
        if let Ok(place) = self.place(dpid) {
            self.tables.remove(place);
        }
    }

    /// The table of a switch.
    pub(crate) fn find(&self, dpid: Dpid) -> Option<&Hosts> {
        self.place(dpid).ok().map(|place| &self.tables[place].1)
    }

    /// The same, to be changed. What was found so last costs nothing.
    #[inline]
    pub(crate) fn get(&mut self, dpid: Dpid) -> Option<&mut Hosts> {
        if self.tables.get(self.last).is_none_or(|(last, _)| *last != dpid) {
            self.last = self.place(dpid).ok()?;
        }
        self.tables.get_mut(self.last).map(|(_, hosts)| hosts)
    }

    /// The table of a switch, which gets one.
    #[inline]
    pub(crate) fn get_or_insert(&mut self, dpid: Dpid, new: impl FnOnce() -> Hosts) -> &mut Hosts {
        if self.get(dpid).is_none() {
            self.insert(dpid, new());
        }
        &mut self.tables[self.last].1
    }

    #[cold]
    fn insert(&mut self, dpid: Dpid, hosts: Hosts) {
        self.last = self.place(dpid).unwrap_or_else(|place| place);
        self.tables.insert(self.last, (dpid, hosts));
    }

    /// Where a switch is, or would be.
    fn place(&self, dpid: Dpid) -> Result<usize, usize> {
        self.tables.binary_search_by_key(&dpid, |(dpid, _)| *dpid)
    }
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::PortNo;

    use super::*;
    use crate::hosts::Secret;

    #[test]
    fn each_switch_keeps_its_own_table_whatever_comes_and_goes() {
        let (mut switches, secret) = (Switches::default(), Secret::new());
        let [host, _] = secret.hosts(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        let mut known = std::collections::BTreeMap::new();
        for step in 0..2000_u32 {
            let dpid = Dpid(u64::from(step) * 7919 % 31);
            if step % 5 == 0 {
                switches.remove(dpid);
                known.remove(&dpid);
            } else {
                let hosts = switches.get_or_insert(dpid, || Hosts::new(secret));
                assert_eq!(hosts.port_of(host), known.insert(dpid, PortNo(step)));
                hosts.learn(host, PortNo(step));
            }
            let asked = Dpid(u64::from(step) * 104_729 % 37);
            let port = switches.get(asked).and_then(|hosts| hosts.port_of(host));
            assert_eq!(port, known.get(&asked).copied());
        }
        switches.clear();
        assert!(switches.get(Dpid(1)).is_none());
    }
}
