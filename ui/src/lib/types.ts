// The JSON of the API, as far as the page uses it. docs/schemas describes the same objects in full.

export type Role = 'viewer' | 'operator' | 'admin';

export interface Session {
  user: string;
  role: Role | null;
  how: string;
  version: string;
}

export interface List<T> {
  items: T[];
  next: string | number | null;
  total: number;
}

export interface Program {
  pid: number | null;
  state: string;
  restarts: number;
  last_exit: string | null;
}

export type FlowMonitorState = 'off' | 'waiting' | 'on' | 'others' | 'paused';

export interface Switch {
  dpid: string;
  version: string;
  address: string;
  transport: string;
  ports: number;
  n_tables: number;
  flows: number | null;
  fullest: { table: number; flows: number; size: number; nearly_full: boolean; app: string | null } | null;
  failing: { message: string; why: string; effect: string; tries: number; seconds: number }[];
  /** That it exchanges no packets with a controller, and the apps that therefore do not get it. */
  no_packets?: { why: string; apps: string[] };
  /** How the kernel knows its flows, and why the switch does not report their changes. */
  flow_monitor: FlowMonitorState;
  flow_monitor_off: string | null;
  /** Requests for its flows and tables, by their reason. */
  requests: Record<string, number>;
  role: string | null;
  packet_ins: number;
  dropped: number;
  flow_mods: number;
  packet_outs: number;
  refused: number;
  errors: number;
}

export interface Port {
  port: string;
  name: string;
  hw_addr: string;
  up: boolean;
  speed_kbps: number | null;
  rx_packets: number | null;
  tx_packets: number | null;
  rx_bytes: number | null;
  tx_bytes: number | null;
  rx_dropped: number | null;
  tx_dropped: number | null;
  rx_errors: number | null;
  tx_errors: number | null;
}

export interface SwitchDetails extends Switch {
  description: { manufacturer: string; hardware: string; software: string; serial: string; datapath: string } | null;
  tables: { table: number; name: string | null; flows: number | null; size: number | null; lookups: number | null; matched: number | null }[] | null;
  port_list: Port[] | null;
}

export interface Flow {
  table: number;
  priority: number;
  owner: string;
  cookie: string;
  match: string;
  actions: string;
  packets: number | null;
  bytes: number | null;
  duration_ms: number;
  idle_timeout: number;
  hard_timeout: number;
}

export interface AppStatus extends Program {
  name: string;
  number: number;
  stage: string;
  band: [number, number] | null;
  host: string;
  demoted: string | null;
  version: string | null;
  origin: string;
  signed_by: string | null;
  kept: string | null;
  problem: string | null;
}

export interface Status {
  version: string;
  monitor: { pid: number; uptime_seconds: number };
  kernel: Program & { listen: string[] };
  services: (Program & { name: string })[];
  apps: AppStatus[];
  inactive: { name: string; state: string }[];
  rejected: string | null;
  safe_mode?: { why: string; complete: boolean; on_trial: string | null };
  switches: Switch[] | null;
  switches_error: string | null;
  health: { verdict: 'healthy' | 'degraded'; reasons: string[] };
}

/** One that is disabled or only installed has a name and a state alone. */
export interface App extends Partial<Omit<AppStatus, 'name' | 'state'>> {
  name: string;
  state: string;
  delivered?: number | null;
  dropped?: number | null;
  refused?: number | null;
}

export interface Use {
  limit: string;
  value: number | null;
  soft: number | null;
  hard: number | null;
}

export interface AppDetails extends App {
  fail?: string | null;
  position?: number;
  capabilities?: { capability: string; dpids: string[]; tables: number[] }[];
  services?: string[];
  flows?: number | null;
  on_stop?: string;
  /** The address of its HTTP routes. */
  routes?: string | null;
  log_level?: string;
  hang_seconds?: number;
  limits?: Use[];
  above?: string[];
  incidents?: number[];
}

export interface Usage {
  name: string;
  kind: string;
  state: string;
  pid: number | null;
  restarts: number;
  uses: Use[];
  above: string[];
  events_per_second: number | null;
}

export interface End {
  dpid: string;
  port: string;
}

export interface DirectedLink {
  from: End;
  to: End;
  metric: number;
  latency_us: number | null;
  suspicious: boolean;
  both_directions: boolean;
}

/** One direction of a link that was there and is down. */
export interface LinkDown {
  from: End;
  to: End;
  why: string;
  /** The port that the reason is about. */
  cause: End;
  down_seconds: number;
}

export interface TopologyPort {
  port: string;
  name: string;
  speed_kbps: number | null;
  live: boolean;
  edge: boolean;
  link: boolean;
  /** Whether a bridge without OpenFlow joins it with other ports; if it is no edge and has no link, it is not used. */
  shared: boolean;
}

export interface Topology {
  settled: boolean;
  switches: { dpid: string; drained: boolean; remaining: string[]; ports: TopologyPort[] }[];
  links: DirectedLink[];
  links_down: LinkDown[];
}

export interface Host {
  mac: string;
  vlan: number | null;
  dpid: string;
  port: string;
  addresses: string[];
  seen_seconds: number;
  known_seconds: number;
  contested: boolean;
  doubted: boolean;
}

export interface PortStats {
  dpid: string;
  port: string;
  state: string;
  rx_bps: number | null;
  tx_bps: number | null;
}

export interface Stats {
  ports: PortStats[];
}

export interface LogLine {
  number: number;
  time: number;
  level: string;
  program: string;
  text: string;
}

export interface Incident {
  id: number;
  time: number;
  program: { kind: string; name: string };
  cause: { kind: string; signal?: number; code?: number; limit?: string; summary?: string; switch?: string; flows?: number; address?: string };
  count: number;
  evidence: {
    facts: string[];
    blamed: string | null;
    called: string[];
    crash?: {
      signal: string;
      address: string | null;
      thread: string;
      registers: Record<string, string>;
      backtrace: { address: string; module: string | null; offset: string | null; function: string | null; source: string | null; guess: boolean }[];
    };
    recent?: {
      worker: number;
      events: { age_us: number; kind: string; count: number; app: string | null; switch: string | null; message: { type: number; size: number } | null }[];
    }[];
  };
  reaction: string[];
  open: boolean;
  duration_ms: number | null;
}

export interface Change {
  id: number;
  steps: { action: string; program: string; why: string }[];
  notices: string[];
  state: { state: string; why?: string };
}

export interface Trace {
  hops: {
    switch: string;
    in_port: number;
    packet: string;
    lookups: { table: number; entry: { priority: number; owner: string; cookie: string; match: string; actions: string } | null }[];
    outputs: { port: string; to_switch: string | null; to_port: number | null; packet: string }[];
    notes: string[];
  }[];
  notes: string[];
}
