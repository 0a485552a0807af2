// Joins the directions of links, their load, and the links that were there and are down.
import type { DirectedLink, End, LinkDown, Stats, Topology } from './types';

export interface Link {
  /** The same for both directions. */
  key: string;
  a: End;
  b: End;
  /** `down`: it was there before and is not now. */
  state: 'up' | 'one-way' | 'down';
  suspicious: boolean;
  latency_us: number | null;
  /** Bits per second in the busier direction; null if unknown. */
  bps: number | null;
  /** That, relative to the speed of the port; null if one of them is unknown. */
  load: number | null;
  /** Why it is down and for how long; null if it is not. */
  down: LinkDown | null;
}

const name = (end: End): string => `${end.dpid} ${end.port}`;

/** The key of a link, the same for both directions. */
export function keyOf(link: { from: End; to: End }): string {
  const [first, second] = [name(link.from), name(link.to)].sort();
  return `${first} ${second}`;
}

/** Returns the links of `topology`, and the earlier links that are down. */
export function join(topology: Topology, stats: Stats | null): Link[] {
  const speeds = new Map<string, number>();
  for (const it of topology.switches)
    for (const port of it.ports) if (port.speed_kbps) speeds.set(name({ dpid: it.dpid, port: port.port }), port.speed_kbps * 1000);
  const sent = new Map<string, number>();
  for (const port of stats?.ports ?? []) if (port.tx_bps !== null && port.state === 'current') sent.set(name(port), port.tx_bps);

  const links = new Map<string, Link>();
  const take = (it: DirectedLink) => {
    const key = keyOf(it);
    const bps = sent.get(name(it.from)) ?? null;
    const speed = speeds.get(name(it.from));
    const load = bps !== null && speed ? bps / speed : null;
    const known = links.get(key);
    if (known) {
      known.state = 'up';
      known.suspicious ||= it.suspicious;
      known.bps = larger(known.bps, bps);
      known.load = larger(known.load, load);
      known.latency_us = larger(known.latency_us, it.latency_us);
      return;
    }
    const [a, b] = name(it.from) < name(it.to) ? [it.from, it.to] : [it.to, it.from];
    const state = it.both_directions ? 'up' : 'one-way';
    links.set(key, { key, a, b, state, suspicious: it.suspicious, latency_us: it.latency_us, bps, load, down: null });
  };
  topology.links.forEach(take);

  for (const down of topology.links_down) {
    const key = keyOf(down);
    if (links.has(key)) continue; // the other direction is up, or is down as well
    const [a, b] = name(down.from) < name(down.to) ? [down.from, down.to] : [down.to, down.from];
    links.set(key, { key, a, b, state: 'down', suspicious: false, latency_us: null, bps: null, load: null, down });
  }
  return [...links.values()].sort((x, y) => (x.key < y.key ? -1 : 1));
}

function larger(x: number | null, y: number | null): number | null {
  return x === null ? y : y === null ? x : Math.max(x, y);
}

/** The step of a load on the scale of the drawing: 0 is idle or unknown, 4 is nearly full. */
export function loadStep(link: Link): number {
  if (link.load === null) return 0;
  if (link.load >= 0.8) return 4;
  if (link.load >= 0.5) return 3;
  if (link.load >= 0.2) return 2;
  return link.load >= 0.01 ? 1 : 0;
}
