// @ts-check
/**
 * Examines the page that loads it, and says in the page's console what it found.
 *
 * On the bridge's own page `/doctor` the findings are shown there. Does not know what is looked at, or what
 * it means.
 */
import { examine, examineBrowser } from './examination.js';

/** @typedef {import('./examination.js').Finding} Finding */

export { examine };

const MARKS = { ok: '✓', note: '•', problem: '✗' };
const WORDS = { ok: 'Fine', note: 'Note', problem: 'Problem' };
const bridge = new URL(import.meta.url).origin;

/**
 * Writes findings as plain words. @param {Finding[]} findings @param {Console} console
 */
export function tell(findings, console) {
  for (const { standing, what, next } of findings) {
    const text = `pagetools: ${MARKS[standing]} ${what}${next && `\n  → ${next}`}`;
    if (standing === 'problem') console.warn(text);
    else console.info(text);
  }
}

/** @param {string} tag @param {string} className @param {(string | Node)[]} content */
function element(tag, className, ...content) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...content);
  return made;
}

/** @param {Finding} finding */
function row({ standing, what, next }) {
  const mark = element('span', 'mark', MARKS[standing]);
  mark.setAttribute('role', 'img');
  mark.setAttribute('aria-label', WORDS[standing]);
  const text = element('div', 'text', element('p', 'what', what));
  if (next) text.append(element('p', 'next', next));
  return element('li', standing, mark, text);
}

/** What examines another page, for that page's console or as a bookmark. */
function showWaysIn() {
  const load = `import('${bridge}/doctor.js?' + Date.now())`;
  const line = /** @type {HTMLElement} */ (document.querySelector('#line'));
  const bookmark = /** @type {HTMLAnchorElement} */ (document.querySelector('#bookmark'));
  line.textContent = `await ${load}`;
  bookmark.href = `javascript:void ${load}`;
}

/** @param {Element} list */
async function show(list) {
  const again = /** @type {HTMLButtonElement} */ (document.querySelector('#again'));
  const check = async () => {
    again.disabled = true;
    list.replaceChildren(element('li', 'busy', 'Checking…'));
    const findings = await examineBrowser(window, bridge);
    list.replaceChildren(...findings.map(row));
    again.disabled = false;
  };
  again.addEventListener('click', check);
  showWaysIn();
  await check();
}

const list = location.origin === bridge ? document.querySelector('#findings') : null;
if (list) await show(list);
else tell(await examine(window, bridge), console);
