// The page with a real Rosemary and a ring of four real switches, which run.sh starts.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { accessible, launch, nothingRan, open, picture, show } from './browser.mjs';

const printed = () => run('rosemary', 'ui', '--no-open').trim();
const SLOW = { timeout: 60_000 };
const run = (program, ...args) => execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const rosemary = (...args) => JSON.parse(run('rosemary', ...args, '--json'));

/** Waits until `check` returns a true value. */
async function until(what, check, seconds = 90) {
  let error;
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(500)) {
    try {
      const found = await check();
      if (found) return found;
    } catch (its) {
      error = its;
    }
  }
  throw new Error(`timeout: ${what}`, { cause: error });
}

const ping = (from, to) => run('ip', 'netns', 'exec', `h${from}`, 'ping', '-c', '1', '-W', '1', `10.0.0.${to}`);

/** Waits for an element, and says what the page shows instead if it does not come. */
async function see(locator) {
  try {
    await locator.first().waitFor(SLOW);
  } catch (error) {
    throw new Error(`the page shows: ${await page.locator('main').innerText()}`, { cause: error });
  }
}

let browser;
let page;
before(async () => {
  await until('the ring is discovered', () => rosemary('links').length === 8);
  for (let i = 1; i <= 4; i++) await until(`host ${i} answers`, () => ping(i, (i % 4) + 1));
  await until('the hosts are known', () => rosemary('hosts').length === 4);
  browser = await launch();
  page = await open(browser, printed());
});
after(() => browser?.close());

test('another printed address in the same tab begins a new session', async () => {
  const before = await page.evaluate(() => sessionStorage.getItem('rosemary-token'));
  assert.ok(before, 'the page has a session');
  await Promise.all([page.waitForEvent('load'), page.evaluate((to) => (location.href = to), printed())]);
  await see(page.locator('main h1', { hasText: 'Network' }));
  await until('the session is new', () => page.evaluate((old) => ![old, null].includes(sessionStorage.getItem('rosemary-token')), before), 20);
});

test('topology appears', async () => {
  await until('all is drawn', async () => (await page.locator('a.switch').count()) === 4 && (await page.locator('.link').count()) === 4);
  await until('the hosts are drawn', async () => (await page.locator('.host').count()) === 4);
  assert.equal(await page.locator('.link.down').count(), 0);
  for (let i = 1; i <= 4; i++) await see(page.locator('.host text', { hasText: `10.0.0.${i}` }));
  await accessible(page, 'network');
  await nothingRan(page, 'network');
  await picture(page, 'network');
});

test('cut link is shown as down, and as up again', async () => {
  run('ip', 'link', 'set', 'r1', 'down');
  await see(page.locator('.link.down'));
  assert.equal(await page.locator('.link.down').count(), 1);
  const row = page.locator('#links tr', { hasText: 'down' });
  assert.match(await row.innerText(), /00:01.*port 1.*00:02/s);
  await picture(page, 'network-link-down');
  const dark = await open(browser, printed(), { colorScheme: 'dark' });
  await dark.locator('a.switch').first().waitFor(SLOW);
  await picture(dark, 'network-dark');
  await dark.context().close();
  run('ip', 'link', 'set', 'r1', 'up');
  await page.locator('.link.down').waitFor({ state: 'detached', ...SLOW });
});

test('switch has ports and flows by owner, and its texts stay text', async () => {
  await show(page, `#/switches/${encodeURIComponent('00:00:00:00:00:00:00:01')}`);
  await see(page.locator('td', { hasText: '<b>p1' }).first());
  await see(page.getByText('<img src=x onerror=window.hacked='));
  await see(page.locator('td a', { hasText: 'forwarding' }).first());
  await nothingRan(page, 'switch');
  await accessible(page, 'switch');
  await picture(page, 'switch');
});

test('packet is traced', async () => {
  await show(page, '#/trace');
  const mac = (address) => rosemary('hosts').find((host) => host.addresses.includes(address)).mac;
  await page.getByLabel('From host').selectOption(mac('10.0.0.1'));
  await page.getByLabel('To host').selectOption(mac('10.0.0.2'));
  await page.getByRole('button', { name: 'Trace' }).click();
  await see(page.locator('section.hop strong', { hasText: 'forwarding' }).first());
  await accessible(page, 'trace');
  await picture(page, 'trace');
});

test('app is stopped and started', async () => {
  await show(page, '#/apps/forwarding');
  await see(page.locator('.limits'));
  await picture(page, 'app');
  const act = async (verb) => {
    await page.locator('main .head').getByRole('button', { name: verb, exact: true }).click(SLOW);
    await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click(SLOW);
  };
  const state = () => rosemary('status').apps.find((app) => app.name === 'forwarding').state;
  await act('Stop');
  await until('it has stopped', () => state() === 'stopped');
  await see(page.locator('main .head .badge', { hasText: 'stopped' }));
  await act('Start');
  await until('it runs again', () => state() === 'running');
  await see(page.locator('main .head .badge', { hasText: 'running' }));
  await accessible(page, 'app');
  await nothingRan(page, 'app');
});

test('incident is shown with its evidence', async () => {
  const { pid } = rosemary('status').apps.find((app) => app.name === 'hostile');
  run('kill', '-KILL', String(pid));
  await show(page, '#/incidents');
  const row = page.locator('tbody tr', { hasText: 'hostile' }).first();
  await row.waitFor(SLOW);
  assert.match(await row.innerText(), /signal 9/);
  await row.locator('a').click();
  await see(page.locator('h2', { hasText: 'Evidence' }));
  await see(page.locator('section', { hasText: 'Reaction' }).locator('li').first());
  await accessible(page, 'incident');
  await nothingRan(page, 'incident');
  await picture(page, 'incident');
});

test('log lines and versions of a hostile app stay text', async () => {
  await show(page, '#/apps/hostile');
  await see(page.locator('[role=log] code', { hasText: '<script>' }).first());
  await nothingRan(page, 'app hostile');
  await show(page, '#/logs');
  await see(page.locator('[role=log] code').first());
  await nothingRan(page, 'logs');
});

test('page of a hostile app runs no script and reaches nothing', async () => {
  const context = await browser.newContext();
  const its = await context.newPage();
  // A request that the page's policy stops has no response.
  const responses = [];
  its.on('response', (response) => responses.push(response.url()));
  const address = 'http://127.0.0.1:8182/apps/hostile/';
  const answer = await until('the app is served', async () => {
    const answer = await its.goto(address);
    return answer.status() === 200 && answer;
  });
  assert.match(answer.headers()['content-security-policy'], /^sandbox;/);
  await its.locator('h1', { hasText: 'hostile' }).waitFor(SLOW);
  await its.locator('button').click();
  await sleep(1000);
  assert.equal(await its.title(), 'hostile');
  assert.deepEqual([...new Set(responses)], [address]);
  assert.equal(rosemary('status').apps.find((app) => app.name === 'forwarding').state, 'running');
  await context.close();
});

test('phone shows the network', async () => {
  const phone = await open(browser, printed(), { viewport: { width: 360, height: 740 } });
  await phone.locator('a.switch').first().waitFor(SLOW);
  await accessible(phone, 'phone');
  await picture(phone, 'phone');
  await phone.context().close();
});

test('page survives a restart of the API', async () => {
  await show(page, '#/');
  const { pid } = rosemary('top').find((it) => it.name === 'northbound') ?? {};
  if (pid) run('kill', '-KILL', String(pid));
  assert.ok(pid, 'rosemary top lists northbound');
  await sleep(1500);
  await see(page.locator('a.switch').first());
  await until('no message of a failure', async () => (await page.getByRole('alert').count()) === 0);
});
