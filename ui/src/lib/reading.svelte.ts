// Reads one answer of the API for a view, again when it changes, and shows why when that fails.
import { get, Problem } from './api';

export interface Reading<T> {
  readonly value: T | null;
  readonly problem: Problem | null;
  again: () => void;
}

/**
 * Reads `path()` now, whenever it changes, and every `seconds`.
 *
 * Call it while a component is created. An answer that arrives after a newer one was requested is dropped.
 */
export function reading<T>(path: () => string | null, seconds = 5, read: (path: string) => Promise<T> = get): Reading<T> {
  let value = $state.raw<T | null>(null);
  let problem = $state.raw<Problem | null>(null);
  let newest = 0;

  async function once(of: string): Promise<void> {
    const own = ++newest;
    try {
      const answer = await read(of);
      if (own === newest) [value, problem] = [answer, null];
    } catch (error) {
      if (own === newest) problem = error instanceof Problem ? error : new Problem(0, String(error));
    }
  }

  const current = $derived(path());
  $effect(() => {
    const of = current;
    [value, problem] = [null, null];
    newest += 1;
    if (of === null) return;
    void once(of);
    const timer = setInterval(() => {
      if (!document.hidden) void once(of);
    }, seconds * 1000);
    return () => clearInterval(timer);
  });

  return {
    get value() {
      return value;
    },
    get problem() {
      return problem;
    },
    again: () => {
      const of = path();
      if (of !== null) void once(of);
    },
  };
}
