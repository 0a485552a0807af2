// Receives the API's server-sent events with `fetch`, because `EventSource` cannot send a token.
import { headers, Problem } from './api';

/** The longest event that is accepted, in characters. */
const LONGEST = 1_000_000;

export interface Received {
  kind: string;
  data: unknown;
}

/** Cuts a stream of text into events; HTML Living Standard, section 9.2.6. */
export class Parser {
  #rest = '';
  /** The id of the newest event. */
  last: string | null = null;

  /** Returns the events that `text` completes. */
  push(text: string): Received[] {
    this.#rest += text.replaceAll('\r\n', '\n');
    const blocks = this.#rest.split('\n\n');
    this.#rest = blocks.pop() ?? '';
    if (this.#rest.length > LONGEST) throw new Problem(0, 'The API sent an event that is too long.');
    return blocks.flatMap((block) => this.#event(block));
  }

  #event(block: string): Received[] {
    let kind = 'message';
    const data: string[] = [];
    for (const line of block.split('\n')) {
      const [, field, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
      if (field === 'event') kind = value ?? '';
      else if (field === 'data') data.push(value ?? '');
      else if (field === 'id') this.last = value ?? '';
    }
    if (data.length === 0) return [];
    try {
      return [{ kind, data: JSON.parse(data.join('\n')) }];
    } catch {
      return [];
    }
  }
}

/**
 * Calls `receive` with each event until the stream ends or `signal` aborts it.
 *
 * `last` is the id of the newest event that the caller has; the result is that of this stream.
 */
export async function follow(
  last: string | null,
  signal: AbortSignal,
  opened: () => void,
  receive: (event: Received) => void,
): Promise<string | null> {
  const more: Record<string, string> = { Accept: 'text/event-stream' };
  if (last !== null) more['Last-Event-ID'] = last;
  const response = await fetch('/api/v1/events', { headers: headers(more), signal, cache: 'no-store' });
  if (!response.ok || !response.body) throw new Problem(response.status, `The events answered with status ${response.status}.`);
  opened();
  const parser = new Parser();
  parser.last = last;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true as const }));
    if (done) return parser.last;
    for (const event of parser.push(value ?? '')) receive(event);
  }
}
