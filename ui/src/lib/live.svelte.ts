// The state of the network as the page shows it: read at the start, again after an event, and every few seconds.
import { all, get, post, Problem, setToken, token } from './api';
import { follow, type Received } from './events';
import { join, type Link } from './links';
import type { Host, Incident, List, Session, Stats, Status, Topology } from './types';

const POLL_MS = 5_000;
const AGAIN_MS = 250;

export interface Live {
  session: Session | null;
  status: Status | null;
  topology: Topology | null;
  /** Why there is no topology. */
  topologyProblem: Problem | null;
  links: Link[];
  hosts: Host[];
  stats: Stats | null;
  incidents: Incident[];
  incidentCount: number;
  /** Why the page's figures are old, or null. */
  problem: Problem | null;
  /** The newest answer, in milliseconds since 1970. */
  updated: number;
  streaming: boolean;
  /** Counts events, so that views read again what they show. */
  changes: { app: number; switch: number; incident: number };
}

export const live = $state<Live>({
  session: null,
  status: null,
  topology: null,
  topologyProblem: null,
  links: [],
  hosts: [],
  stats: null,
  incidents: [],
  incidentCount: 0,
  problem: null,
  updated: 0,
  streaming: false,
  changes: { app: 0, switch: 0, incident: 0 },
});

const asProblem = (error: unknown): Problem => (error instanceof Problem ? error : new Problem(0, String(error)));

/** Whether the user may perform an action that needs `role`. */
export function may(role: 'operator' | 'admin'): boolean {
  const held = live.session?.role;
  return held === 'admin' || held === role;
}

async function readStatus(): Promise<void> {
  live.status = await get<Status>('/status');
}

async function readNetwork(): Promise<void> {
  try {
    const topology = await get<Topology>('/topology');
    const [hosts, stats] = await Promise.all([
      all<Host>('/hosts').then((it) => it.items).catch(() => []),
      get<Stats>('/stats').catch(() => null),
    ]);
    Object.assign(live, { topology, hosts, stats, topologyProblem: null, links: join(topology, stats) });
  } catch (error) {
    const problem = asProblem(error);
    if (problem.status === 0) throw problem;
    Object.assign(live, { topologyProblem: problem, topology: null, links: [], hosts: [], stats: null });
  }
}

async function readIncidents(): Promise<void> {
  const list = await get<List<Incident>>('/incidents?limit=100');
  live.incidents = list.items;
  live.incidentCount = list.total;
}

/** Reads everything again. */
export async function refresh(): Promise<void> {
  const results = await Promise.allSettled([readStatus(), readNetwork(), readIncidents()]);
  const failed = results.find((it) => it.status === 'rejected');
  live.problem = failed ? asProblem(failed.reason) : null;
  if (live.problem?.status === 401) await readSession().catch(() => undefined);
  if (!failed) live.updated = Date.now();
}

let pending: ReturnType<typeof setTimeout> | undefined;

/** Reads everything again soon; many events together cause one reading. */
function refreshSoon(): void {
  pending ??= setTimeout(() => {
    pending = undefined;
    void refresh();
  }, AGAIN_MS);
}

function receive(event: Received): void {
  if (event.kind === 'app' || event.kind === 'program' || event.kind === 'change' || event.kind === 'lost') live.changes.app += 1;
  if (event.kind === 'switch' || event.kind === 'topology' || event.kind === 'lost') live.changes.switch += 1;
  if (event.kind === 'incident' || event.kind === 'lost') live.changes.incident += 1;
  if (event.kind !== 'hello') refreshSoon();
}

async function readSession(): Promise<void> {
  try {
    live.session = await get<Session>('/session');
  } catch (error) {
    // The token has expired or was revoked. Without it the user may still be somebody on this machine.
    if (!(error instanceof Problem) || error.status !== 401 || !token()) throw error;
    setToken(null);
    live.session = await get<Session>('/session');
  }
}

/** Exchanges a one-time token for a session of this tab. */
export async function login(oneTime: string): Promise<void> {
  const answer = await post<{ token: string }>('/session', { one_time_token: oneTime });
  setToken(answer.token);
}

async function followEvents(): Promise<never> {
  let last: string | null = null;
  for (let pause = 1000; ; pause = Math.min(pause * 2, 15_000)) {
    try {
      const opened = () => {
        live.streaming = true;
        pause = 1000;
      };
      last = await follow(last, new AbortController().signal, opened, receive);
    } catch {
      // The next attempt follows; the banner of `problem` tells the user if Rosemary does not answer at all.
    }
    live.streaming = false;
    refreshSoon();
    await new Promise((done) => setTimeout(done, pause));
  }
}

/** Begins to read and to follow. Returns why the one-time token was refused, if it was. */
export async function begin(oneTime: string | null): Promise<Problem | null> {
  let refused: Problem | null = null;
  if (oneTime) await login(oneTime).catch((error: unknown) => (refused = asProblem(error)));
  await readSession().catch((error: unknown) => (live.problem = asProblem(error)));
  await refresh();
  setInterval(() => {
    if (!document.hidden) void refresh();
  }, POLL_MS);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) refreshSoon();
  });
  void followEvents();
  return refused;
}
