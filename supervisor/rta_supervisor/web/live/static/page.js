// Brings the parts of the page together: store, tables, details of the chosen session or stream, banner, theme.

import { Aside } from './aside.js';
import { Detail } from './detail.js';
import { byId, setData, setText } from './dom.js';
import { Sessions } from './sessions.js';
import { Store } from './store.js';
import { setUpTheme } from './theme.js';

const SESSION = '#session=';
const STREAM = '#stream=';
const CONNECTION_TEXTS = { waiting: 'connecting', live: 'live', lost: 'reconnecting' };

const sessions = new Sessions((identity) => SESSION + encodeURIComponent(identity));
const aside = new Aside((stream) => STREAM + encodeURIComponent(stream));
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

const named = (prefix) => (location.hash.startsWith(prefix) ? decode(location.hash.slice(prefix.length)) : null);

// Shows the session or the stream that the address names, or none. The sessions of a chosen stream are listed alone.
function showChosen() {
  const [identity, stream] = [named(SESSION), named(STREAM)];
  if (identity === sessions.chosen && stream === sessions.stream) return;
  const before = sessions.chosen;
  sessions.chosen = identity;
  sessions.stream = stream;
  const isNone = identity === null && stream === null;
  byId('columns').classList.toggle('with-detail', !isNone);
  if (isNone) {
    detail.close();
    sessions.focus(before);
  } else {
    detail.open({ identity, stream });
    detail.show(store);
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
  showChosen();
}

setUpTheme(() => {});
byId('detail-close').addEventListener('click', closeDetail);
window.addEventListener('hashchange', showChosen);
window.addEventListener('popstate', showChosen);
document.addEventListener('keydown', (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape' && (sessions.chosen ?? sessions.stream) !== null && !(isTyping && event.target.value)) closeDetail();
  else if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    byId('filter').focus();
    event.preventDefault();
  }
});
showChosen();
