//! Formats switches and their ports, tables and queues.

use super::{Bits, list};
use crate::{
    Capabilities, Features, Hello, PortConfig, PortDesc, PortFeatures, PortMod, PortReason,
    PortState, PortStatus, Queue, QueueConfig, SwitchConfig, TableMod, TableReason, TableStatus,
    Vacancy,
};
use core::fmt;

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bitmap {
            None => write!(f, "version {:#04x}", self.version),
            Some(bitmap) => {
                f.write_str("version bitmap: ")?;
                let versions = (0..u32::BITS).filter(|bit| bitmap & 1 << bit != 0);
                list(f, versions.map(|bit| format!("{bit:#04x}")), ", ")
            }
        }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[
            (Self::FLOW_STATS.0, "FLOW_STATS"),
            (Self::TABLE_STATS.0, "TABLE_STATS"),
            (Self::PORT_STATS.0, "PORT_STATS"),
            (Self::GROUP_STATS.0, "GROUP_STATS"),
            (Self::STP.0, "STP"),
            (Self::IP_REASM.0, "IP_REASM"),
            (Self::QUEUE_STATS.0, "QUEUE_STATS"),
            (Self::ARP_MATCH_IP.0, "ARP_MATCH_IP"),
            (Self::PORT_BLOCKED.0, "PORT_BLOCKED"),
            (Self::BUNDLES.0, "BUNDLES"),
            (Self::FLOW_MONITORING.0, "FLOW_MONITORING"),
        ];
        Bits { bits: self.0, names }.fmt(f)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpid:{} n_tables:{} n_buffers:{}", self.dpid, self.n_tables, self.n_buffers)?;
        if self.auxiliary_id != 0 {
            write!(f, " auxiliary_id:{}", self.auxiliary_id)?;
        }
        write!(f, " capabilities: {}", self.capabilities)?;
        if self.actions != 0 {
            write!(f, " actions: {:#x}", self.actions)?;
        }
        self.ports.iter().try_for_each(|port| write!(f, "; {port}"))
    }
}

impl fmt::Display for SwitchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flags & 3 {
            0 => f.write_str("frags=normal")?,
            1 => f.write_str("frags=drop")?,
            2 => f.write_str("frags=reassemble")?,
            _ => f.write_str("frags=mask")?,
        }
        if self.flags & !3 != 0 {
            write!(f, " flags={:#x}", self.flags & !3)?;
        }
        write!(f, " miss_send_len={}", self.miss_send_len)
    }
}

impl fmt::Display for PortConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[
            (Self::PORT_DOWN.0, "PORT_DOWN"),
            (Self::NO_STP.0, "NO_STP"),
            (Self::NO_RECV.0, "NO_RECV"),
            (Self::NO_RECV_STP.0, "NO_RECV_STP"),
            (Self::NO_FLOOD.0, "NO_FLOOD"),
            (Self::NO_FWD.0, "NO_FWD"),
            (Self::NO_PACKET_IN.0, "NO_PACKET_IN"),
        ];
        Bits { bits: self.0, names }.fmt(f)
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[
            (Self::LINK_DOWN.0, "LINK_DOWN"),
            (Self::BLOCKED.0, "BLOCKED"),
            (Self::LIVE.0, "LIVE"),
        ];
        Bits { bits: self.0, names }.fmt(f)
    }
}

impl fmt::Display for PortFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[
            (Self::RATE_10MB_HD.0, "10MB-HD"),
            (Self::RATE_10MB_FD.0, "10MB-FD"),
            (Self::RATE_100MB_HD.0, "100MB-HD"),
            (Self::RATE_100MB_FD.0, "100MB-FD"),
            (Self::RATE_1GB_HD.0, "1GB-HD"),
            (Self::RATE_1GB_FD.0, "1GB-FD"),
            (Self::RATE_10GB_FD.0, "10GB-FD"),
            (Self::RATE_40GB_FD.0, "40GB-FD"),
            (Self::RATE_100GB_FD.0, "100GB-FD"),
            (Self::RATE_1TB_FD.0, "1TB-FD"),
            (Self::RATE_OTHER.0, "OTHER"),
            (Self::COPPER.0, "COPPER"),
            (Self::FIBER.0, "FIBER"),
            (Self::AUTONEG.0, "AUTO_NEG"),
            (Self::PAUSE.0, "AUTO_PAUSE"),
            (Self::PAUSE_ASYM.0, "AUTO_PAUSE_ASYM"),
        ];
        Bits { bits: self.0, names }.fmt(f)
    }
}

impl fmt::Display for PortDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}({}): addr:{} config:{} state:{}",
            self.port_no, self.name, self.hw_addr, self.config, self.state
        )?;
        let features = [
            ("current", self.curr),
            ("advertised", self.advertised),
            ("supported", self.supported),
            ("peer", self.peer),
        ];
        for (name, features) in features {
            if features != PortFeatures::default() {
                write!(f, " {name}:{features}")?;
            }
        }
        if (self.curr_speed, self.max_speed) != (0, 0) {
            write!(f, " speed:{} kbps now, {} kbps max", self.curr_speed, self.max_speed)?;
        }
        Ok(())
    }
}

impl fmt::Display for PortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Add => "ADD",
            Self::Delete => "DEL",
            Self::Modify => "MOD",
        })
    }
}

impl fmt::Display for PortStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.desc)
    }
}

impl fmt::Display for PortMod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "port:{} addr:{} config:{} mask:{}",
            self.port_no, self.hw_addr, self.config, self.mask
        )?;
        match self.advertise {
            PortFeatures(0) => f.write_str(" advertise:UNCHANGED"),
            advertise => write!(f, " advertise:{advertise}"),
        }
    }
}

impl fmt::Display for TableMod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table_id {
            0xff => f.write_str("table_id=ALL")?,
            table => write!(f, "table_id={table}")?,
        }
        write!(f, " config={:#x}", self.config)?;
        if let Some(eviction) = self.eviction {
            let names = &[(1, "OTHER"), (2, "IMPORTANCE"), (4, "LIFETIME")];
            write!(f, " eviction({})", Bits { bits: eviction.0, names })?;
        }
        if let Some(Vacancy { down, up, now }) = self.vacancy {
            write!(f, " vacancy(down:{down}% up:{up}% now:{now}%)")?;
        }
        Ok(())
    }
}

impl fmt::Display for TableStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            TableReason::VacancyDown => "reason=VACANCY_DOWN ",
            TableReason::VacancyUp => "reason=VACANCY_UP ",
        })?;
        self.table.fmt(f)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {} of port {}:", self.queue_id, self.port)?;
        for (name, rate) in [("min_rate", self.min_rate), ("max_rate", self.max_rate)] {
            match rate {
                None => {}
                Some(rate @ 0..=1000) => write!(f, " {name}:{}.{}%", rate / 10, rate % 10)?,
                Some(_) => write!(f, " {name}:(disabled)")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for QueueConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port={}", self.port)?;
        self.queues.iter().try_for_each(|queue| write!(f, "; {queue}"))
    }
}
