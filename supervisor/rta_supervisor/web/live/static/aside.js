// Everything but sessions: the figures on top, streams, supervisors, control streams, dead letters, log events.

import { byId, createElement, setData, Rows, setText, createSparkline } from './dom.js';
import * as format from './format.js';
import { RATES_KEPT, isLive, mean } from './store.js';

const EVENTS_SHOWN = 100;
const WARNING_LEVELS = ['warning', 'error', 'critical'];

const cell = (classes) => createElement('td', { class: classes });

// Rows of items { name, texts, href }: a heading, a link where there is an address, and a cell for each text, with the
// classes of its column.
function plainRows(table, classes) {
  const create = (item) => {
    const cells = classes.map(cell);
    return { element: createElement('tr', {}, createElement('th', { scope: 'row', class: 'clip', title: item.name }, item.href ? createElement('a', { href: item.href }, item.name) : item.name), ...cells), cells };
  };
  const update = (row, item) => item.texts.forEach((text, index) => setText(row.cells[index], text));
  return new Rows(byId(table).tBodies[0], create, update);
}

export class Aside {
  constructor(streamHrefOf) {
    this.streamHrefOf = streamHrefOf;
    this.sparkline = createSparkline(140, 26);
    byId('note-rate').append(this.sparkline.element);
    this.streams = plainRows('streams', ['number', 'number', 'number dim', 'number dim']);
    this.nodes = plainRows('nodes', ['dim', 'number', 'number dim']);
    this.controlStreams = plainRows('lanes', ['number', 'number dim', 'number dim']);
    this.letters = new Rows(byId('letters'), createLetter, () => {});
    this.events = new Rows(byId('events'), createEvent, () => {});
    byId('events-loud').addEventListener('change', () => this.showEvents());
  }

  show(store) {
    this.store = store;
    this.showEvents();
    this.showFigures(store);
    if (store.rest) this.showRest(store.rest, store.now());
  }

  showFigures(store) {
    const states = {};
    for (const { state } of store.sessions.values()) states[state] = (states[state] ?? 0) + 1;
    const live = [...store.sessions.values()].filter(isLive).length;
    setText(byId('tile-live'), format.count(Math.max(live, 0)));
    const texts = ['waiting', 'failed', 'abandoned'].filter((state) => states[state]).map((state) => `${states[state]} ${state}`);
    setText(byId('note-live'), texts.join(', ') || 'none waiting or failed');
    setText(byId('tile-rate'), format.count(mean(store.totalRates, 5)));
    this.sparkline.draw(store.totalRates, RATES_KEPT);
  }

  showRest(rest, now) {
    setText(byId('node'), `${rest.node} · ${rest.version}`);
    this.showServer(rest.server);
    const waiting = rest.lanes.reduce((sum, stream) => sum + stream.waiting + stream.unacknowledged, 0);
    const oldest = Math.min(...rest.lanes.map((stream) => stream.oldest_ms ?? Infinity));
    setText(byId('tile-waiting'), format.count(waiting));
    setText(byId('note-waiting'), Number.isFinite(oldest) ? `oldest ${format.duration(now - oldest)}` : 'all handled');
    const hooks = Object.values(rest.webhooks).reduce((sum, count) => sum + count, 0);
    if (hooks) setText(byId('note-waiting'), hooks === 1 ? 'and 1 webhook' : `and ${format.count(hooks)} webhooks`);
    setText(byId('tile-dead'), format.count(rest.deadLetters));
    setData(byId('tile-dead'), 'alarm', String(rest.deadLetters > 0));
    setText(byId('note-dead'), rest.letters.length ? `latest ${format.duration(now - Number(rest.letters[0].id.split('-')[0]))} ago` : 'none');
    setText(byId('tile-nodes'), String(rest.nodes.length));
    setText(byId('note-nodes'), [...new Set(rest.nodes.map((node) => node.host))].join(', '));
    this.showTables(rest, now);
  }

  showServer(server) {
    if (!server) return;
    setText(byId('tile-memory'), format.bytes(server.used_bytes));
    const share = server.max_bytes ? server.used_bytes / server.max_bytes : null;
    setText(byId('note-memory'), `${share === null ? 'no limit' : `${Math.round(share * 100)}% of ${format.bytes(server.max_bytes)}`} · ${server.product} ${server.version}`);
    setData(byId('tile-memory'), 'alarm', String(share !== null && share > 0.85));
  }

  showTables(rest, now) {
    const ago = (ms) => (ms == null ? '–' : format.age(now - ms));
    const memory = rest.streams.reduce((sum, stream) => sum + (stream.memory_bytes ?? 0), 0);
    const more = rest.totalStreams - rest.streams.length;
    setText(byId('streams-note'), rest.totalStreams ? `${rest.totalStreams} · ${format.bytes(memory)}${more > 0 ? ` · ${more} not shown` : ''}` : 'none yet');
    this.streams.show(rest.streams.map((stream) => ({
      name: stream.stream,
      href: this.streamHrefOf(stream.stream),
      texts: [`${format.count(stream.entries)}`, format.bytes(stream.memory_bytes), String(stream.open_sessions), ago(stream.last_ms)],
    })), (item) => item.name);
    this.nodes.show(rest.nodes.map((node) => ({ name: node.node, texts: [node.version, String(node.unacknowledged), ago(node.seen_ms)] })), (item) => item.name);
    const hooks = Object.entries(rest.webhooks).map(([name, count]) => ({ name: `webhook ${name}`, texts: [format.count(count), '', ''] }));
    this.controlStreams.show([...rest.lanes.map((stream) => ({
      name: `${stream.lane} of ${stream.principal}`,
      texts: [format.count(stream.waiting), format.count(stream.unacknowledged), ago(stream.oldest_ms)],
    })), ...hooks], (item) => item.name);
    setText(byId('letters-note'), rest.letters.length ? `newest ${rest.letters.length} of ${format.count(rest.deadLetters)}` : 'none');
    this.letters.show(rest.letters, (letter) => letter.id);
  }

  showEvents() {
    const onlyWarnings = byId('events-loud').checked;
    const events = (this.store?.events ?? []).filter((event) => !onlyWarnings || WARNING_LEVELS.includes(event.level));
    this.events.show(events.slice(-EVENTS_SHOWN).reverse(), (event) => event.number);
  }
}

function createLetter(letter) {
  const at = new Date(Number(letter.id.split('-')[0])).toISOString();
  return { element: createElement('li', {}, createElement('time', { datetime: at }, format.clock(at)), ' ', createElement('b', {}, letter.code), ' ', createElement('span', { class: 'dim' }, letter.reason, ' ', letter.source)) };
}

function createEvent(event) {
  const facts = Object.entries(event.facts).filter(([name]) => name !== 'node').map(([name, text]) => `${name}=${text}`).join('  ');
  return {
    element: createElement('li', { 'data-level': event.level }, createElement('time', { datetime: event.timestamp }, format.clock(event.timestamp)), ' ',
      event.level === 'info' ? null : createElement('span', { class: 'level' }, `${event.level} `), createElement('b', {}, event.event), ' ', createElement('span', { class: 'dim' }, facts)),
  };
}
