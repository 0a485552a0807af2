// Places switches and hosts. A place stays where it is while the network does not change.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force';

import type { Host } from './types';
import type { Link } from './links';

export interface Place extends SimulationNodeDatum {
  id: string;
  kind: 'switch' | 'host';
  x: number;
  y: number;
}

/** Above this number of hosts at a switch, the drawing shows their number instead. */
export const HOSTS_EACH = 8;
/** Above this number of places, the drawing shows no hosts at all. */
const MOST = 400;

export const hostId = (host: Host): string => `${host.mac} ${host.vlan ?? ''}`;

export interface Drawing {
  places: Map<string, Place>;
  /** The hosts that are drawn. */
  hosts: Host[];
  /** The number of hosts of a switch that are not drawn. */
  hidden: Map<string, number>;
  box: { x: number; y: number; width: number; height: number };
}

/** Computes the places, beginning with those of `before`. `upright`: the drawing is higher than wide. */
export function layout(dpids: string[], links: Link[], hosts: Host[], before: Map<string, Place>, upright: boolean): Drawing {
  const known = new Set(dpids);
  const of = new Map<string, Host[]>();
  for (const host of hosts) if (known.has(host.dpid)) of.set(host.dpid, [...(of.get(host.dpid) ?? []), host]);
  const hidden = new Map<string, number>();
  const drawn: Host[] = [];
  for (const [dpid, its] of of) {
    if (its.length > HOSTS_EACH || dpids.length + hosts.length > MOST) hidden.set(dpid, its.length);
    else drawn.push(...its);
  }

  // New switches begin on a circle in the order of their ids, so that the same network is drawn alike each time.
  const radius = 60 + dpids.length * 22;
  let isNew = false;
  const start = (id: string, kind: Place['kind'], x: number, y: number): Place => {
    const old = before.get(id);
    if (!old) isNew = true;
    return { id, kind, x: old?.x ?? x, y: old?.y ?? y };
  };
  const places = new Map<string, Place>();
  dpids.forEach((dpid, index) => {
    const angle = (index / dpids.length) * 2 * Math.PI - Math.PI / 2;
    places.set(dpid, start(dpid, 'switch', radius * Math.cos(angle), radius * Math.sin(angle)));
  });
  for (const [index, host] of drawn.entries()) {
    const at = places.get(host.dpid);
    if (!at) continue;
    const length = Math.hypot(at.x, at.y) || 1;
    const turn = ((index % 5) - 2) * 0.3;
    places.set(hostId(host), start(hostId(host), 'host', at.x + (at.x / length + turn) * 80, at.y + (at.y / length - turn) * 80));
  }

  const edges = [
    ...links.filter((it) => known.has(it.a.dpid) && known.has(it.b.dpid)).map((it) => ({ source: it.a.dpid, target: it.b.dpid, length: 150 })),
    ...drawn.map((host) => ({ source: host.dpid, target: hostId(host), length: 74 })),
  ];
  const all = [...places.values()];
  const simulation = forceSimulation(all)
    .force('link', forceLink<Place, (typeof edges)[number]>(edges).id((place) => place.id).distance((edge) => edge.length).strength(0.6))
    .force('charge', forceManyBody<Place>().strength((place) => (place.kind === 'switch' ? -620 : -180)))
    .force('apart', forceCollide<Place>((place) => (place.kind === 'switch' ? 50 : 34)))
    .force('x', forceX(0).strength(upright ? 0.09 : 0.03))
    .force('y', forceY(0).strength(upright ? 0.03 : 0.07))
    .stop();
  const steps = isNew || all.length !== before.size ? (before.size > 0 ? 80 : 260) : 0;
  simulation.tick(all.length > 300 ? Math.min(steps, 80) : steps);

  const xs = all.map((place) => place.x);
  const ys = all.map((place) => place.y);
  const [left, right] = [Math.min(...xs, -60) - 56, Math.max(...xs, 60) + 56];
  const [top, bottom] = [Math.min(...ys, -60) - 40, Math.max(...ys, 60) + 52];
  return { places, hosts: drawn, hidden, box: { x: left, y: top, width: right - left, height: bottom - top } };
}
