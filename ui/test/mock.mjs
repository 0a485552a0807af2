// Serves the built page and invented answers of the API, for work on the page without a network: node test/mock.mjs DIST [PORT]
import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The policy that crates/northbound/src/ui.rs sends. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
  "require-trusted-types-for 'script'; trusted-types svelte-trusted-html";
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };

export const EVIL = `<img src=x onerror="window.hacked=1">"'><script>window.hacked=1</script>`;

const dpid = (number) => `00:00:00:00:00:00:00:${number.toString(16).padStart(2, '0')}`;
const count = 6;

export function network() {
  const switches = Array.from({ length: count }, (_, index) => ({
    dpid: dpid(index + 1), version: '1.3', address: `127.0.0.1:${51000 + index}`, transport: index % 2 ? 'tls 1.3' : 'tcp', epoch: index + 1, ports: 4,
    n_tables: 254, table_size: 1000000, flows: 14 + index, fullest: null, failing: [],
    flow_monitor: index ? 'on' : 'off', flow_monitor_off: index ? null : 'it refused it', requests: { heal: index }, role: null,
    packet_ins: 1200 + index * 77, dropped: 0, pauses: 0, guarded: 0,
    flow_mods: 310, packet_outs: 802, refused: 0, unsent: 0, errors: 0,
  }));
  const links = switches.flatMap((_, index) => {
    const next = (index + 1) % count;
    const one = { from: { dpid: dpid(index + 1), port: '1' }, to: { dpid: dpid(next + 1), port: '2' }, metric: 1, latency_us: 240, suspicious: false, both_directions: true };
    return [one, { ...one, from: one.to, to: one.from }];
  });
  const topology = {
    settled: true,
    switches: switches.map((it) => ({
      dpid: it.dpid, drained: it.dpid === dpid(2), remaining: it.dpid === dpid(2) ? ['1 host is attached to it: move it to another switch'] : [],
      ports: ['1', '2', '3', '4'].map((port) => ({ port, name: `s-eth${port}`, hw_addr: '02:00:00:00:00:01', speed_kbps: 10_000_000, live: true, edge: port === '3', link: port < '3', shared: port === '4' })),
    })),
    links,
    links_down: [
      { from: { dpid: dpid(1), port: '4' }, to: { dpid: dpid(count), port: '4' }, why: 'port-down', cause: { dpid: dpid(1), port: '4' }, down_seconds: 300 },
    ],
  };
  const hosts = switches.map((it, index) => ({
    mac: `02:00:00:00:01:0${index + 1}`, vlan: null, dpid: it.dpid, port: '3', addresses: [`10.0.0.${index + 1}`], seen_seconds: 4, known_seconds: 900, contested: false, doubted: false,
  }));
  return { switches, topology, hosts };
}

const limits = [
  { limit: 'memory', value: 41 << 20, soft: 429496729, hard: 536870912 },
  { limit: 'cpu', value: 870, soft: 800, hard: 1000 },
  { limit: 'descriptors', value: 19, soft: 409, hard: 512 },
  { limit: 'flow-mods-per-second', value: 240, soft: null, hard: null },
];

function app(name, state = 'running') {
  return {
    name, number: 3, stage: 'control', band: [20000, 29999], host: 'user', demoted: null, version: '0.1.0', sha256: 'ab', origin: 'shipped', signed_by: null,
    pid: state === 'running' ? 4711 : null, uid: 7, state, restarts: 2, last_exit: 'killed by signal 9', kept: null, delivered: 123456, dropped: 0, refused: 1, lost: 0,
    skipped: false, passed_over: 0, unsent: 0, slowed: 0,
  };
}

/** Answers as the API would, from a state that a test may change. */
export function api(state) {
  const problem = (status, title) => ({ status, body: { type: 'about:blank', title, status, detail: '', hint: 'Look at rosemary status.' } });
  const list = (items) => ({ body: { items, next: null, total: items.length } });
  return (method, path, search) => {
    const [, , , kind, name, verb] = path.split('/').map(decodeURIComponent);
    const { switches, topology, hosts } = state;
    switch (kind) {
      case 'session':
        return { body: { user: 'root', role: state.role ?? 'admin', how: 'loopback', version: '0.1.0' } };
      case 'status':
        return {
          body: {
            version: '0.1.0', monitor: { pid: 1, uptime_seconds: 93784 },
            kernel: { pid: 2, uid: 0, state: 'running', restarts: 0, last_exit: null, listen: ['127.0.0.1:6653'] },
            services: [{ name: 'log', pid: 3, uid: 0, state: 'running', restarts: 0, last_exit: null }],
            apps: state.apps, inactive: [], rejected: null, switches, switches_error: null,
            health: state.incidents.some((it) => it.open) ? { verdict: 'degraded', reasons: ['the app firewall is held: too many restarts'] } : { verdict: 'healthy', reasons: [] },
          },
        };
      case 'topology':
        return { body: topology };
      case 'hosts':
        return list(hosts);
      case 'stats':
        return {
          body: {
            switches: [], tables: [], groups: [], meters: [],
            ports: topology.links.map((link, index) => ({ ...link.from, state: 'current', rx_bps: 1e6, tx_bps: [2e4, 1.4e9, 3.1e9, 6.2e9, 9.1e9, 3e5][Math.floor(index / 2) % 6] })),
          },
        };
      case 'switches': {
        const it = switches.find((other) => other.dpid === name);
        if (!it) return problem(404, 'not connected');
        if (verb === 'flows')
          return list([
            { table: 0, priority: 25001, owner: 'forwarding', cookie: '0x1', match: 'eth_dst=02:00:00:00:01:02', actions: 'output:1', packets: 90210, bytes: 88120123, duration_ms: 81234, idle_timeout: 0, hard_timeout: 0 },
            { table: 0, priority: 0, owner: 'kernel', cookie: '0x0', match: '', actions: 'output:controller', packets: 12, bytes: 1234, duration_ms: 912345, idle_timeout: 0, hard_timeout: 0 },
          ]);
        return {
          body: {
            ...it,
            description: state.description ?? { manufacturer: 'Nicira, Inc.', hardware: 'Open vSwitch', software: '3.1.0', serial: 'None', datapath: 's1' },
            tables: [{ table: 0, name: 'classifier', flows: 14, size: 1000000, lookups: 90333, matched: 90210 }],
            port_list: ['1', '2', '3', '4', 'LOCAL'].map((port) => ({ port, name: state.portName ?? `s1-eth${port}`, hw_addr: '02:00:00:00:00:01', up: port !== '2' || !state.cut, speed_kbps: 10_000_000, rx_packets: 9, tx_packets: 9, rx_bytes: 9e9, tx_bytes: 4e8, rx_dropped: 0, tx_dropped: 0, rx_errors: 0, tx_errors: 0 })),
          },
        };
      }
      case 'apps': {
        if (!name) return list(state.apps);
        const it = state.apps.find((other) => other.name === name);
        if (!it) return problem(404, 'no such app');
        if (verb === 'logs') return { body: { items: state.log, next: state.log.length, end: true } };
        if (method === 'POST') {
          it.state = verb === 'stop' ? 'stopped' : 'running';
          return { body: { id: 4, steps: [{ action: verb, program: `app ${name}`, why: 'an operator asked for it' }], notices: [], state: { state: 'done' } } };
        }
        return {
          body: {
            ...it, fail: null, position: 0, receives: { ethertypes: [], dpids: [] }, capabilities: ['packet-in', 'packet-out', 'flow.write'].map((capability) => ({ capability, dpids: [], tables: [] })),
            services: ['topology', 'hosts'], service_rights: [], read: [], object: '/usr/lib/rosemary/apps/x.so', config: null, flows: null, groups: [1, 2], meters: [1, 2], routes: 'http://127.0.0.1:8182/apps/x/', on_stop: 'keep',
            log_level: 'info', hang_seconds: 3, restart: {}, limits, above: ['cpu'], incidents: [1, 2],
          },
        };
      }
      case 'usage':
        return list([
          { name: 'kernel', kind: 'kernel', state: 'running', pid: 2, restarts: 0, uses: limits, above: [], events_per_second: null, dropped: null, refused: null },
          ...state.apps.map((it) => ({ name: it.name, kind: 'app', state: it.state, pid: it.pid, restarts: 0, uses: limits, above: ['cpu'], events_per_second: 9, dropped: 0, refused: 0 })),
        ]);
      case 'incidents': {
        if (!name) return list(state.incidents);
        const it = state.incidents.find((other) => String(other.id) === name);
        return it ? { body: it } : problem(404, 'no such incident');
      }
      case 'logs':
        return { body: { items: state.log, next: state.log.length, end: true } };
      case 'trace':
        return {
          body: {
            hops: [{
              switch: search.get('dpid'), in_port: 3, packet: search.get('packet'),
              lookups: [{ table: 0, entry: { priority: 25001, owner: 'forwarding', cookie: '0x1', match: 'eth_dst=02:00:00:00:01:02', actions: 'output:1' } }],
              outputs: [{ port: '1', to_switch: dpid(2), to_port: 2, packet: '' }], notes: [],
            }],
            notes: [],
          },
        };
      default:
        return problem(404, 'not found');
    }
  };
}

export function initial() {
  const { switches, topology, hosts } = network();
  return {
    switches, topology, hosts, apps: [app('forwarding'), app('firewall', 'held')],
    incidents: [{
      version: 1, id: 2, time: Date.now() * 1e6 - 3e11, program: { kind: 'app', name: 'firewall' }, cause: { kind: 'signal', signal: 11 }, count: 3,
      evidence: { facts: ['it was handling a packet-in of switch 00:00:00:00:00:00:00:01', 'its resident memory was 14 MiB'], blamed: null, called: [] },
      reaction: ['restarted it after 1 s', 'held it: it ended 50 times in an hour'], open: true, duration_ms: null,
    }, {
      version: 1, id: 1, time: Date.now() * 1e6 - 4e11, program: { kind: 'kernel', name: 'kernel' }, count: 1,
      cause: { kind: 'refused-switch', switch: '00:00:00:00:00:00:00:01', address: '10.0.0.9' },
      evidence: { facts: ['00:00:00:00:00:00:00:01 is connected already, from 10.0.0.1:4711'], blamed: null, called: [] },
      reaction: ['the kernel closed the connection'], open: false, duration_ms: null,
    }],
    log: Array.from({ length: 40 }, (_, index) => ({ number: index, time: (Date.now() - (40 - index) * 1000) * 1e6, level: index % 9 ? 'info' : 'warn', program: 'app forwarding', text: `path was computed hops=${index}` })),
  };
}

/** Starts the server and returns it with its state. */
export function serve(dist, port, state = initial()) {
  const answer = api(state);
  const server = createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname === '/api/v1/events') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write('id: 0\nevent: hello\ndata: {"last":0}\n\n');
      return;
    }
    if (url.pathname.startsWith('/api/')) {
      const { status = 200, body } = answer(request.method, url.pathname, url.searchParams);
      response.writeHead(status, { 'Content-Type': status < 400 ? 'application/json' : 'application/problem+json' });
      response.end(JSON.stringify(body));
      return;
    }
    const path = normalize(join(dist, url.pathname === '/' ? 'index.html' : url.pathname));
    if (!path.startsWith(normalize(dist)) || !existsSync(path)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream', 'Content-Security-Policy': CSP, 'X-Content-Type-Options': 'nosniff' });
    createReadStream(path).pipe(response);
  });
  return new Promise((ready) => server.listen(port, '127.0.0.1', () => ready({ server, state, port: server.address().port })));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { port } = await serve(process.argv[2], Number(process.argv[3] ?? 8190));
  console.log(`http://127.0.0.1:${port}/`);
}
