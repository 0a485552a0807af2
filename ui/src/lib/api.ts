// Calls the API. Every call has a deadline, and every failure is a `Problem` with a sentence for people.

const BASE = '/api/v1';
const TOKEN_KEY = 'rosemary-token';
const DEADLINE_MS = 20_000;

/** A failed call: what is wrong, and what to do. */
export class Problem extends Error {
  constructor(
    /** The status of HTTP; 0 if there was no answer. */
    readonly status: number,
    message: string,
    /** What to do; empty if that is unknown. */
    readonly hint = '',
  ) {
    super(message);
  }
}

/** The token of this tab's session. It ends with the tab. */
export function token(): string | null {
  return sessionStorage.getItem(TOKEN_KEY);
}

export function setToken(value: string | null): void {
  if (value === null) sessionStorage.removeItem(TOKEN_KEY);
  else sessionStorage.setItem(TOKEN_KEY, value);
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const held = token();
  return held ? { ...more, Authorization: `Bearer ${held}` } : more;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = await response.json();
    const text = [body.title, body.detail].filter((part) => typeof part === 'string' && part);
    return new Problem(response.status, text.join(': ') || `status ${response.status}`, typeof body.hint === 'string' ? body.hint : '');
  } catch {
    return new Problem(response.status, `The API answered with status ${response.status}.`);
  }
}

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers: headers(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(DEADLINE_MS),
      cache: 'no-cache',
    });
  } catch {
    throw new Problem(0, 'Rosemary does not answer.', 'Check that it runs: rosemary status');
  }
  if (!response.ok) throw await problemOf(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const get = <T>(path: string): Promise<T> => call('GET', path);
export const post = <T>(path: string, body?: unknown): Promise<T> => call('POST', path, body);
export const put = <T>(path: string, body?: unknown): Promise<T> => call('PUT', path, body);

/** Encodes one part of a path. */
export const part = encodeURIComponent;

/** Makes a path with a query of the values that are set. */
export function query(path: string, values: Record<string, string | number | null | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return set.length ? `${path}?${new URLSearchParams(set.map(([key, value]) => [key, String(value)]))}` : path;
}

/** Reads all pages of a list, at most `most` items. */
export async function all<T>(path: string, most = 5000): Promise<{ items: T[]; total: number }> {
  const items: T[] = [];
  let total = 0;
  let after: string | number | null = null;
  do {
    const join = path.includes('?') ? '&' : '?';
    const cursor: string = after === null ? '' : `&after=${encodeURIComponent(after)}`;
    const page: { items: T[]; next: string | number | null; total: number } = await get(`${path}${join}limit=1000${cursor}`);
    items.push(...page.items);
    total = page.total;
    after = page.next;
  } while (after !== null && items.length < most);
  return { items, total };
}
