// Brings the parts of the page together: store, tables, details of the chosen session, banner, theme.

import { Aside } from './aside.js';
import { Detail } from './detail.js';
import { byId, setData, setText } from './dom.js';
import { Sessions } from './sessions.js';
import { Store } from './store.js';

const PREFIX = '#session=';
const hrefOf = (identity) => PREFIX + encodeURIComponent(identity);
const CONNECTION_TEXTS = { waiting: 'connecting', live: 'live', lost: 'reconnecting' };
const THEMES = ['auto', 'light', 'dark'];

const sessions = new Sessions(hrefOf);
const aside = new Aside();
const detail = new Detail();
let connection = 'waiting';
let lastUpdate = null;

const store = new Store(
  () => {
    lastUpdate = new Date();
    sessions.show(store);
    aside.show(store);
    detail.show(store);
    showBanner();
  },
  (status) => {
    if (status === connection) return;
    connection = status;
    setData(byId('link'), 'is', connection);
    setText(byId('link-text'), CONNECTION_TEXTS[connection]);
    showBanner();
  },
);

function showBanner() {
  const since = lastUpdate ? ` What you see is from ${lastUpdate.toTimeString().slice(0, 8)}.` : '';
  let text = '';
  if (connection === 'lost') text = `The supervisor does not answer. Trying again.${since}`;
  else if (store.rest?.problem) text = `${sentence(store.rest.problem)} What you see may be old.`;
  const banner = byId('banner');
  banner.hidden = !text;
  setText(banner, text);
  document.body.dataset.stale = String(Boolean(text));
}

function sentence(problem) {
  const text = problem.startsWith('Redis') ? problem : `Not ready: ${problem}`;
  return /[.!]$/.test(text) ? text : `${text}.`;
}

// Shows the session that the address names, or none.
function showChosenSession() {
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

function closeDetail() {
  history.pushState(null, '', location.pathname + location.search);
  showChosenSession();
}

function useTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId('theme'), `Theme: ${theme}`);
  detail.plot.draw();
}

let theme = 'auto';
try {
  theme = THEMES.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'auto';
} catch { /* without local storage the theme is that of the system */ }
useTheme(theme);

byId('theme').addEventListener('click', () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try {
    localStorage.setItem('theme', theme);
  } catch { /* the theme is not kept */ }
  useTheme(theme);
});
byId('detail-close').addEventListener('click', closeDetail);
window.addEventListener('hashchange', showChosenSession);
window.addEventListener('popstate', showChosenSession);
document.addEventListener('keydown', (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape' && sessions.chosen !== null && !(isTyping && event.target.value)) closeDetail();
  else if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    byId('filter').focus();
    event.preventDefault();
  }
});
showChosenSession();
