// The address after `#` names the view: `#/switches/00:..:01`. A one-time token is taken out of it at the start.

export interface Route {
  view: string;
  /** The switch, app or incident; empty for lists. */
  name: string;
}

function parse(): Route {
  const [view = '', ...rest] = location.hash.replace(/^#\/?/, '').split('/');
  let name = rest.join('/');
  try {
    name = decodeURIComponent(name);
  } catch {
    // An address that somebody typed may be malformed; then it names nothing.
  }
  return { view: view || 'network', name };
}

/** Returns the one-time token of the address and removes it from there and from the history. */
export function takeLogin(): string | null {
  const login = /^#login=([A-Za-z0-9._~-]{1,512})$/.exec(location.hash)?.[1] ?? null;
  if (login !== null) history.replaceState(null, '', `${location.pathname}#/`);
  return login;
}

export const route = $state<Route>(parse());

addEventListener('hashchange', () => {
  Object.assign(route, parse());
  scrollTo(0, 0);
  // Screen readers and the keyboard go on at the new view's heading.
  requestAnimationFrame(() => document.querySelector<HTMLElement>('main h1')?.focus());
});

export const to = (view: string, name = ''): string => `#/${view}${name ? `/${encodeURIComponent(name)}` : ''}`;
