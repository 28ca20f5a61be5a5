// The page: shows the list or the session that the address names, what is wrong, and the theme.

import * as address from './address.js';
import { byId, createElement, setData, setText } from './dom.js';
import * as exactJson from './exact_json.js';
import * as format from './format.js';
import { SessionList } from './session_list.js';
import { SessionView } from './session_view.js';
import { setUpTheme } from './theme.js';

const CONNECTION_TEXTS = {
  waiting: 'connecting', live: 'live', lost: 'connection lost', absent: 'not in Redis', refused: 'not shown', over: 'ended',
};
const STALE_STATES = new Set(['lost', 'absent']);
const BEHIND_MS = 3000;

let problem = null;
const list = new SessionList(() => showListStatus());
const view = new SessionView((shown, trouble = null) => {
  problem = trouble;
  showStatus(shown);
});

function setConnection(state, text) {
  setData(byId('link'), 'is', state);
  setText(byId('link-text'), text);
}

// `age` changes every second: it stands beside the alert, so that a screen reader does not read that out again each time.
function showBanner(text, age = '') {
  byId('banner').hidden = !text;
  setText(byId('alert'), text ?? '');
  setText(byId('alert-age'), age && ` ${age}`);
}

// What is true about the list: whether it is answered, and how old it is where it isn't.
function showListStatus() {
  const { problem: refusal, shownAt } = list;
  if (refusal) setConnection('lost', refusal.status && refusal.status < 500 ? CONNECTION_TEXTS.refused : 'no answer');
  else setConnection('live', CONNECTION_TEXTS.live);
  showBanner(refusal?.message ?? null, refusal && shownAt ? pictureAge(shownAt) : '');
}

// What is true about the session that is shown: its name, its connection, and how old the picture is.
function showStatus({ model }) {
  if (!model) return;
  const { document: session } = model;
  // Where there is no session to be seen there is nothing to control.
  byId('session-view').hidden = !session && model.connection.state === 'refused';
  if (session) {
    setText(byId('title'), session.identifier || session.identity);
    setText(byId('subtitle'), `${session.state} · ${session.identity}`);
    document.title = `${session.identifier || session.identity} · ${session.state}`;
    showJson(session);
  }
  const behindMs = model.isLive ? model.lag.at(performance.now()) : 0;
  setConnection(...connectionOf(model, behindMs));
  showBanner(...trouble(model, behindMs));
}

function connectionOf({ connection, silence }, behindMs) {
  if (connection.state !== 'live') return [connection.state, CONNECTION_TEXTS[connection.state]];
  if (silence) return ['lost', 'no answer'];
  return behindMs > BEHIND_MS ? ['waiting', `${format.age(behindMs)} behind`] : ['live', CONNECTION_TEXTS.live];
}

// What is wrong, the gravest first, and how old the picture is by that; null where nothing is.
function trouble({ document: session, connection, configuration, silence, refusal }, behindMs) {
  if (STALE_STATES.has(connection.state) && session) return [refusal ?? lossOf(connection), pictureAge(connection.at)];
  if (refusal) return [refusal];
  if (silence && connection.state === 'live') return [silence.text, pictureAge(silence.since)];
  if (problem) return [problem];
  if (behindMs > BEHIND_MS) return ['Data comes faster than this browser or its network takes it.', `The picture is ${format.age(behindMs)} behind.`];
  return [connection.detail || configuration.problem || null];
}

const LOSSES = { lost: 'The connection is lost. Trying again.', absent: 'Redis does not have the session now. Trying again.' };
const lossOf = ({ state, detail }) => [LOSSES[state], detail].filter(Boolean).join(' ');

const pictureAge = (sinceMs) => `What you see is ${format.age(Date.now() - sinceMs)} old.`;

// Only where it has changed: what a person selected in it stays selected.
function showJson(session) {
  const json = exactJson.stringify(session, 2);
  if (byId('session-json').textContent === json) return;
  const facts = Object.entries({ Identity: session.identity, State: session.state, Began: session.timestamp, ...session.details });
  byId('facts').replaceChildren(...facts.map(([name, value]) => createElement('div', {}, createElement('dt', {}, name), createElement('dd', {}, String(value)))));
  setText(byId('session-json'), json);
}

// A person who came by a link of the page goes on at the title of what it shows now.
function route() {
  show();
  byId('title').focus();
}

function show() {
  const wanted = address.parse(location.hash);
  problem = null;
  document.body.dataset.view = wanted ? 'session' : 'sessions';
  byId('sessions-view').hidden = Boolean(wanted);
  byId('session-view').hidden = !wanted;
  if (wanted) {
    list.hide();
    setText(byId('title'), wanted.identity);
    view.show(wanted);
  } else {
    view.close();
    setText(byId('title'), 'Sessions');
    setText(byId('subtitle'), '');
    document.title = 'Sessions';
    list.show();
  }
}

document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input, select, textarea')) return;
  event.preventDefault();
  byId(document.body.dataset.view === 'session' ? 'channel-search' : 'search').focus();
});
// The fragment of the address is the view: this link moves the focus only.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('main').focus();
});
addEventListener('hashchange', route);
setInterval(() => (view.model ? showStatus(view) : list.problem && showListStatus()), 1000);
setUpTheme(() => view.restyle());
show();
// For tests and the curious: what the page knows, not what its pixels show.
globalThis.viewer = view;
