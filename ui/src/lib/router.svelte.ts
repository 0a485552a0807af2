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

const LOGIN = /^#login=([A-Za-z0-9._~-]{1,512})$/;

/** Returns the one-time token of the address and removes it from there, from the history and from the view's name. */
export function takeLogin(): string | null {
  const login = LOGIN.exec(location.hash)?.[1] ?? null;
  if (login !== null) {
    history.replaceState(null, '', `${location.pathname}#/`);
    // This change of the address causes no event.
    Object.assign(route, parse());
  }
  return login;
}

export const route = $state<Route>(parse());

addEventListener('hashchange', () => {
  if (LOGIN.test(location.hash)) {
    // A new printed address was opened in this tab: the page begins again with its token.
    location.reload();
    return;
  }
  Object.assign(route, parse());
  scrollTo(0, 0);
  // Screen readers and the keyboard go on at the new view's heading.
  requestAnimationFrame(() => document.querySelector<HTMLElement>('main h1')?.focus());
});

export const to = (view: string, name = ''): string => `#/${view}${name ? `/${encodeURIComponent(name)}` : ''}`;
