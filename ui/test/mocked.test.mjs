// The page with invented answers: every view in both colours and at 360 px, and hostile text in every string of every answer.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { accessible, launch, nothingRan, open, show } from './browser.mjs';
import { EVIL, initial, serve } from './mock.mjs';

const DPID = '00:00:00:00:00:00:00:01';
const VIEWS = ['#/', '#/switches', `#/switches/${DPID}`, '#/apps', '#/apps/forwarding', '#/incidents', '#/incidents/2', '#/trace', '#/logs', '#/nothing'];
const DIST = new URL('../../dist', import.meta.url).pathname;

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

async function withPage(state, options, run) {
  const { server, port } = await serve(DIST, 0, state);
  const page = await open(browser, `http://127.0.0.1:${port}/#login=once`, options);
  try {
    await run(page);
  } finally {
    await page.context().close();
    server.closeAllConnections();
    server.close();
  }
}

for (const [name, options] of [
  ['light', {}],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { viewport: { width: 360, height: 740 } }],
])
  test(`every view is accessible: ${name}`, () =>
    withPage(initial(), options, async (page) => {
      for (const view of VIEWS) {
        await show(page, view);
        await page.waitForTimeout(300);
        await accessible(page, `${name} ${view}`);
        assert.deepEqual(page.problems, [], view);
      }
    }));

/** Replaces every text that a stranger chooses. */
function poison(value, key = '') {
  const kept = ['dpid', 'state', 'kind', 'port', 'level', 'verdict', 'transport', 'stage', 'limit'];
  if (Array.isArray(value)) return value.map((it) => poison(it, key));
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([its, it]) => [its, poison(it, its)]));
  return typeof value === 'string' && !kept.includes(key) ? EVIL : value;
}

test('hostile text stays text', () => {
  const good = initial();
  const state = { ...poison(good), description: poison({ manufacturer: '', hardware: '', software: '', serial: '', datapath: '' }), portName: EVIL };
  state.apps.forEach((app, index) => (app.name = good.apps[index].name + EVIL));
  return withPage(state, {}, async (page) => {
    const app = `#/apps/${encodeURIComponent(state.apps[0].name)}`;
    for (const view of [...VIEWS, app, `#/${EVIL}`, `#/apps/${encodeURIComponent(EVIL)}`]) {
      await show(page, view);
      await page.waitForTimeout(300);
      await nothingRan(page, view);
    }
    await show(page, app);
    assert.ok((await page.locator('main').innerText()).includes('<img src=x onerror='), 'the text itself is shown');
  });
});

test('refused switch is named with its address', () =>
  withPage(initial(), {}, async (page) => {
    await show(page, '#/incidents');
    await page.getByText(`refused 10.0.0.9 as switch ${DPID}`).waitFor();
  }));

test('link that is down is shown with its reason', () =>
  withPage(initial(), {}, async (page) => {
    await show(page, '#/');
    const row = page.locator('#links tr', { hasText: 'down' });
    await row.waitFor();
    assert.match(await row.innerText(), /for 5 min.*port 4 of \S+ is down/s);
    assert.equal(await page.locator('.link.down').count(), 1);
  }));

test('keyboard reaches everything, and Escape cancels', () =>
  withPage(initial(), {}, async (page) => {
    await show(page, '#/apps/forwarding');
    await page.getByRole('button', { name: 'Stop' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.closest('dialog') !== null), true, 'the focus is in the dialog');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await page.locator('main .head .badge').innerText(), 'running', 'nothing was done');

    await show(page, '#/');
    await page.locator('a.switch').first().waitFor();
    const seen = new Set();
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press('Tab');
      seen.add(await page.evaluate(() => document.activeElement.getAttribute('href') ?? document.activeElement.className));
    }
    assert.ok(seen.has(`#/switches/${encodeURIComponent(DPID)}`), [...seen].join(' '));
  }));

test('viewer sees actions that are switched off', () =>
  withPage({ ...initial(), role: 'viewer' }, {}, async (page) => {
    await show(page, '#/apps/forwarding');
    assert.ok(await page.getByRole('button', { name: 'Stop' }).isDisabled());
  }));

test('port of a bridge that is not used is marked', () =>
  withPage(initial(), {}, async (page) => {
    await show(page, `#/switches/${DPID}`);
    const row = page.getByRole('row').filter({ hasText: 'bridge, not used' });
    await row.waitFor();
    assert.match(await row.innerText(), /^4\s+s1-eth4/);
  }));

test('drained switch names the traffic that remains', () =>
  withPage(initial(), {}, async (page) => {
    await show(page, '#/switches/00:00:00:00:00:00:00:02');
    await page.getByText('Traffic remains: 1 host is attached to it: move it to another switch.').waitFor();
  }));

test('page says when Rosemary does not answer', async () => {
  const { server, port } = await serve(DIST, 0);
  try {
    const page = await open(browser, `http://127.0.0.1:${port}/#login=once`);
    server.closeAllConnections();
    server.close();
    await page.getByRole('alert').filter({ hasText: 'Rosemary does not answer' }).waitFor({ timeout: 20_000 });
    await page.context().close();
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
