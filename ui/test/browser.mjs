// Starts Debian's Chromium and checks pages: no error, no script of a stranger, no serious violation of axe-core.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });

/**
 * Opens a page of which every error fails the test. `url` is an address as `rosemary ui` prints it, with a one-time token: every test
 * begins where a person begins, and has to arrive at the network's view.
 */
export async function open(browser, url, options = {}) {
  assert.match(url, /#login=/, 'the address has a one-time token');
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(`${error.stack ?? error}`));
  page.on('console', (message) => {
    // A refused request of the page is not an error of its script; tests look at what the page shows then.
    if (message.type() === 'error' && !message.text().includes('Failed to load resource')) page.problems.push(message.text());
  });
  page.on('dialog', (dialog) => {
    page.problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  await page.locator('main h1').waitFor();
  assert.equal(await page.locator('main h1').first().innerText(), 'Network');
  assert.equal(await page.evaluate(() => location.hash), '#/', 'the token is no longer in the address');
  return page;
}

export async function show(page, hash) {
  await page.evaluate((to) => (location.hash = to), hash);
  await page.locator('main h1').waitFor();
}

/** Fails if a string became HTML, or if a script that is not the page's has run. */
export async function nothingRan(page, where) {
  const found = await page.evaluate(() => ({
    hacked: window.hacked,
    strangers: [...document.querySelectorAll('#page :is(img, script, iframe, b, object, embed, [onerror], [onload])')].map((it) => it.outerHTML),
  }));
  assert.equal(found.hacked, undefined, `${where}: a script ran`);
  assert.deepEqual(found.strangers, [], `${where}: a string became HTML`);
  assert.deepEqual(page.problems, [], where);
}

/** Fails for violations that axe-core calls serious or critical, and if the page is wider than the window. */
export async function accessible(page, where) {
  // The isolated world of the debugger is not subject to the page's policy.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = found.violations.filter((it) => it.impact === 'serious' || it.impact === 'critical');
  assert.deepEqual(serious.map((it) => `${it.id}: ${it.nodes.map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`), [], where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where}: the page is ${wide} px wider than the window`);
}

/** Takes a picture for the documentation, if SAVE is set. */
export async function picture(page, name) {
  if (!process.env.SAVE) return;
  const dir = new URL('../../../../docs/images/', import.meta.url).pathname;
  mkdirSync(dir, { recursive: true });
  await page.screenshot({ path: `${dir}${name}.png`, animations: 'disabled' });
}
