// Brings the parts of the page together: what is known, where we are, what is wrong, which theme.

import { Aside } from './aside.js';
import { Detail } from './detail.js';
import { byId, mark, say } from './dom.js';
import { Sessions } from './sessions.js';
import { Store } from './store.js';

const PREFIX = '#session=';
const hrefOf = (identity) => PREFIX + encodeURIComponent(identity);
const LINKS = { waiting: 'connecting', live: 'live', lost: 'reconnecting' };
const THEMES = ['auto', 'light', 'dark'];

const sessions = new Sessions(hrefOf);
const aside = new Aside();
const detail = new Detail();
let link = 'waiting';
let lastNews = null;

const store = new Store(
  () => {
    lastNews = new Date();
    sessions.show(store);
    aside.show(store);
    detail.show(store);
    showBanner();
  },
  (now) => {
    if (now === link) return;
    link = now;
    mark(byId('link'), 'is', link);
    say(byId('link-text'), LINKS[link]);
    showBanner();
  },
);

function showBanner() {
  const since = lastNews ? ` What you see is from ${lastNews.toTimeString().slice(0, 8)}.` : '';
  let text = '';
  if (link === 'lost') text = `The supervisor does not answer. Trying again.${since}`;
  else if (store.rest?.problem) text = `${sentence(store.rest.problem)} What you see may be old.`;
  const banner = byId('banner');
  banner.hidden = !text;
  say(banner, text);
  document.body.dataset.stale = String(Boolean(text));
}

function sentence(problem) {
  const text = problem.startsWith('Redis') ? problem : `Not ready: ${problem}`;
  return /[.!]$/.test(text) ? text : `${text}.`;
}

function follow() {
  const identity = location.hash.startsWith(PREFIX) ? decode(location.hash.slice(PREFIX.length)) : null;
  if (identity === sessions.chosen) return;
  const before = sessions.chosen;
  sessions.chosen = identity;
  byId('columns').classList.toggle('with-detail', identity !== null);
  if (identity === null) {
    detail.close();
    sessions.focus(before);
  } else {
    detail.open(identity);
  }
  sessions.show();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function leave() {
  history.pushState(null, '', location.pathname + location.search);
  follow();
}

function useTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  say(byId('theme'), `Theme: ${theme}`);
  detail.plot.draw();
}

let theme = 'auto';
try {
  theme = THEMES.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'auto';
} catch { /* a browser that keeps nothing has the theme of its system */ }
useTheme(theme);

byId('theme').addEventListener('click', () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try {
    localStorage.setItem('theme', theme);
  } catch { /* as above */ }
  useTheme(theme);
});
byId('detail-close').addEventListener('click', leave);
window.addEventListener('hashchange', follow);
window.addEventListener('popstate', follow);
document.addEventListener('keydown', (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape' && sessions.chosen !== null && !(isTyping && event.target.value)) leave();
  else if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    byId('filter').focus();
    event.preventDefault();
  }
});
// Ages grow while nothing happens.
follow();
