// What stands beside the sessions: the glance on top, streams, supervisors, lanes, dead letters, events.

import { byId, make, mark, Rows, say, spark } from './dom.js';
import * as format from './format.js';
import { HISTORY, isLive, mean } from './store.js';

const EVENTS_SHOWN = 100;

const cell = (classes) => make('td', { class: classes });

function plainRows(table, classes) {
  const create = (one) => {
    const cells = classes.map(cell);
    return { element: make('tr', {}, make('th', { scope: 'row', class: 'clip', title: one.name }, one.name), ...cells), cells };
  };
  const update = (row, one) => one.words.forEach((text, at) => say(row.cells[at], text));
  return new Rows(byId(table).tBodies[0], create, update);
}

export class Aside {
  constructor() {
    this.line = spark(140, 26);
    byId('note-rate').append(this.line.element);
    this.streams = plainRows('streams', ['number', 'number', 'number dim', 'number dim']);
    this.nodes = plainRows('nodes', ['dim', 'number', 'number dim']);
    this.lanes = plainRows('lanes', ['number', 'number dim', 'number dim']);
    this.letters = new Rows(byId('letters'), createLetter, () => {});
    this.events = new Rows(byId('events'), createEvent, () => {});
    byId('events-loud').addEventListener('change', () => this.showEvents());
  }

  show(store) {
    this.store = store;
    this.showEvents();
    this.showGlance(store);
    if (store.rest) this.showRest(store.rest, store.now());
  }

  showGlance(store) {
    const states = {};
    for (const one of store.sessions.values()) states[one.state] = (states[one.state] ?? 0) + 1;
    const live = [...store.sessions.values()].filter(isLive).length;
    say(byId('tile-live'), format.count(Math.max(live, 0)));
    const words = ['waiting', 'failed', 'abandoned'].filter((state) => states[state]).map((state) => `${states[state]} ${state}`);
    say(byId('note-live'), words.join(', ') || 'none waiting or failed');
    say(byId('tile-rate'), format.count(mean(store.total, 5)));
    this.line.draw(store.total, HISTORY);
  }

  showRest(rest, now) {
    say(byId('node'), `${rest.node} · ${rest.version}`);
    this.showServer(rest.server);
    const waiting = rest.lanes.reduce((sum, lane) => sum + lane.waiting + lane.unacknowledged, 0);
    const oldest = Math.min(...rest.lanes.map((lane) => lane.oldest_ms ?? Infinity));
    say(byId('tile-waiting'), format.count(waiting));
    say(byId('note-waiting'), Number.isFinite(oldest) ? `oldest ${format.duration(now - oldest)}` : 'all handled');
    const hooks = Object.values(rest.webhooks).reduce((sum, one) => sum + one, 0);
    if (hooks) say(byId('note-waiting'), hooks === 1 ? 'and 1 webhook' : `and ${format.count(hooks)} webhooks`);
    say(byId('tile-dead'), format.count(rest.deadLetters));
    mark(byId('tile-dead'), 'alarm', String(rest.deadLetters > 0));
    say(byId('note-dead'), rest.letters.length ? `latest ${format.duration(now - Number(rest.letters[0].id.split('-')[0]))} ago` : 'none');
    say(byId('tile-nodes'), String(rest.nodes.length));
    say(byId('note-nodes'), [...new Set(rest.nodes.map((node) => node.host))].join(', '));
    this.showTables(rest, now);
  }

  showServer(server) {
    if (!server) return;
    say(byId('tile-memory'), format.bytes(server.used_bytes));
    const share = server.max_bytes ? server.used_bytes / server.max_bytes : null;
    say(byId('note-memory'), `${share === null ? 'no limit' : `${Math.round(share * 100)}% of ${format.bytes(server.max_bytes)}`} · ${server.product} ${server.version}`);
    mark(byId('tile-memory'), 'alarm', String(share !== null && share > 0.85));
  }

  showTables(rest, now) {
    const ago = (ms) => (ms == null ? '–' : format.age(now - ms));
    const memory = rest.streams.reduce((sum, one) => sum + (one.memory_bytes ?? 0), 0);
    const more = rest.totalStreams - rest.streams.length;
    say(byId('streams-note'), rest.totalStreams ? `${rest.totalStreams} · ${format.bytes(memory)}${more > 0 ? ` · ${more} not shown` : ''}` : 'none yet');
    this.streams.show(rest.streams.map((one) => ({
      name: one.stream,
      words: [`${format.count(one.entries)}`, format.bytes(one.memory_bytes), String(one.open_sessions), ago(one.last_ms)],
    })), (one) => one.name);
    this.nodes.show(rest.nodes.map((one) => ({ name: one.node, words: [one.version, String(one.unacknowledged), ago(one.seen_ms)] })), (one) => one.name);
    const hooks = Object.entries(rest.webhooks).map(([name, count]) => ({ name: `webhook ${name}`, words: [format.count(count), '', ''] }));
    this.lanes.show([...rest.lanes.map((one) => ({
      name: `${one.lane} of ${one.principal}`,
      words: [format.count(one.waiting), format.count(one.unacknowledged), ago(one.oldest_ms)],
    })), ...hooks], (one) => one.name);
    say(byId('letters-note'), rest.letters.length ? `newest ${rest.letters.length} of ${format.count(rest.deadLetters)}` : 'none');
    this.letters.show(rest.letters, (one) => one.id);
  }

  showEvents() {
    const isLoud = byId('events-loud').checked;
    const found = (this.store?.events ?? []).filter((one) => !isLoud || one.level === 'warning' || one.level === 'error' || one.level === 'critical');
    this.events.show(found.slice(-EVENTS_SHOWN).reverse(), (one) => one.number);
  }
}

function createLetter(one) {
  const at = new Date(Number(one.id.split('-')[0])).toISOString();
  return { element: make('li', {}, make('time', { datetime: at }, format.clock(at)), ' ', make('b', {}, one.code), ' ', make('span', { class: 'dim' }, one.reason, ' ', one.source)) };
}

function createEvent(one) {
  const facts = Object.entries(one.facts).filter(([name]) => name !== 'node').map(([name, text]) => `${name}=${text}`).join('  ');
  return {
    element: make('li', { 'data-level': one.level }, make('time', { datetime: one.timestamp }, format.clock(one.timestamp)), ' ',
      one.level === 'info' ? null : make('span', { class: 'level' }, `${one.level} `), make('b', {}, one.event), ' ', make('span', { class: 'dim' }, facts)),
  };
}
