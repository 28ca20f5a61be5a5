// The table of sessions: filtered, sorted, and bounded in its rows until all are asked for.

import { byId, createElement, setData, Rows, setText, createSparkline } from './dom.js';
import * as format from './format.js';
import { RATES_KEPT, isLive, mean } from './store.js';

const ROWS_AT_FIRST = 100;
const RATE_OVER_SNAPSHOTS = 5;
const SPARKLINE_SIZE = [90, 20];
const STATE_ORDER = { open: 0, waiting: 1, failed: 2, abandoned: 3, truncated: 4, closed: 5 };
const SORT_KEYS = {
  identity: (session) => session.identity,
  state: (session) => STATE_ORDER[session.state] ?? 9,
  stream: (session) => session.stream,
  opened: (session) => -session.openedMs,
  rate: (session) => -session.shownRate,
  samples: (session) => -session.samples,
  stored: (session) => -session.storedBytes,
  heard: (session) => -(session.heardMs ?? 0),
};

// Whether a session is in a stream, or in a day of a source.
const isOfStream = (session, stream) => session.stream === stream || (session.stream.startsWith(`${stream}.`) && /^\d{8}$/.test(session.stream.slice(stream.length + 1)));

export class Sessions {
  constructor(hrefOf) {
    this.hrefOf = hrefOf;
    this.sort = 'opened';
    this.reversed = false;
    this.limit = ROWS_AT_FIRST;
    this.chosen = null;
    this.stream = null;
    this.store = null;
    this.rows = new Rows(byId('sessions').tBodies[0], (session) => this.create(session), (row, session) => this.update(row, session));
    for (const head of byId('sessions').querySelectorAll('th[data-sort]')) this.makeSortable(head);
    byId('filter').addEventListener('input', () => this.show());
    byId('which').addEventListener('change', () => this.show());
    byId('more').addEventListener('click', () => {
      this.limit = Infinity;
      this.show();
    });
    byId('sessions').addEventListener('keydown', (event) => this.move(event));
  }

  makeSortable(head) {
    const button = createElement('button', { type: 'button' }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      this.reversed = this.sort === head.dataset.sort ? !this.reversed : false;
      this.sort = head.dataset.sort;
      this.show();
    });
  }

  // Arrow keys move the focus from session to session.
  move(event) {
    const step = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
    const row = event.target.closest('tbody tr');
    if (!step || !row) return;
    row[step]?.querySelector('a').focus();
    event.preventDefault();
  }

  matching() {
    const text = byId('filter').value.trim().toLowerCase();
    const which = byId('which').querySelector(':checked').value;
    return [...this.store.sessions.values()].filter((session) => {
      if (this.stream !== null && !isOfStream(session, this.stream)) return false;
      if (which !== 'all' && isLive(session) !== (which === 'live')) return false;
      return !text || [session.identity, session.identifier, session.stream].some((name) => name.toLowerCase().includes(text));
    });
  }

  show(store = this.store) {
    if (!store) return;
    this.store = store;
    for (const session of store.sessions.values()) session.shownRate = mean(store.rates.get(session.identity) ?? [], RATE_OVER_SNAPSHOTS);
    const matching = this.matching();
    const key = SORT_KEYS[this.sort];
    const sign = this.reversed ? -1 : 1;
    matching.sort((a, b) => {
      // Live sessions come before ended ones, unless sorted by identity.
      const live = isLive(b) - isLive(a);
      if (live && this.sort !== 'identity') return live;
      const [x, y] = [key(a), key(b)];
      return x < y ? -sign : x > y ? sign : a.identity < b.identity ? -1 : 1;
    });
    this.rows.show(matching.slice(0, this.limit), (session) => session.identity);
    this.showHeads();
    this.showFoot(matching.length);
  }

  showHeads() {
    for (const head of byId('sessions').querySelectorAll('th[data-sort]')) {
      const isText = ['identity', 'state', 'stream', 'opened'].includes(head.dataset.sort);
      const direction = isText === this.reversed ? 'descending' : 'ascending';
      if (head.dataset.sort !== this.sort) head.removeAttribute('aria-sort');
      else if (head.getAttribute('aria-sort') !== direction) head.setAttribute('aria-sort', direction);
    }
  }

  showFoot(count) {
    const { sessions, rest } = this.store;
    const shown = Math.min(count, this.limit);
    const beyond = (rest?.totalSessions ?? 0) - [...sessions.values()].filter(isLive).length;
    const texts = [`${shown} of ${sessions.size}`];
    if (beyond > 1) texts.push(`the ${sessions.size} heard of last; ${format.count(rest.totalSessions)} are live`);
    setText(byId('sessions-count'), texts.join(' · '));
    byId('more').hidden = shown >= count;
    setText(byId('more'), `Show all ${count}`);
    const empty = byId('sessions-empty');
    empty.hidden = count > 0;
    if (count === 0) setText(empty, sessions.size ? (this.stream === null ? 'No session matches the filter.' : 'No session of this stream matches.') : 'No session yet. Writers open them; they appear here within a second.');
  }

  create(session) {
    const link = createElement('a', { href: this.hrefOf(session.identity), title: session.identity }, session.identity);
    const lost = createElement('span', { class: 'tag bad', title: 'Redis lost data of this session' }, 'lost data');
    const sparkline = createSparkline(...SPARKLINE_SIZE);
    const state = createElement('span', { class: 'state' });
    const cells = {
      stream: createElement('td', { class: 'wide dim clip', title: session.stream }, session.stream),
      age: createElement('td', { class: 'number' }),
      rate: createElement('td', { class: 'number rate' }),
      samples: createElement('td', { class: 'number wide extra' }),
      stored: createElement('td', { class: 'number wider dim' }),
      heard: createElement('td', { class: 'number wider dim' }),
    };
    const identifier = createElement('span', { class: 'dim identifier' });
    const name = createElement('th', { scope: 'row', class: 'clip' }, link, identifier, lost);
    const element = createElement('tr', {}, name, createElement('td', {}, state), cells.stream, cells.age, cells.rate, createElement('td', { class: 'spark' }, sparkline.element), cells.samples, cells.stored, cells.heard);
    return { element, link, identifier, lost, sparkline, state, cells };
  }

  update(row, session) {
    const now = this.store.now();
    const live = isLive(session);
    setData(row.state, 'is', session.state);
    setText(row.state, session.state);
    setData(row.element, 'live', String(live));
    row.lost.hidden = !session.lostData;
    setText(row.identifier, session.identifier);
    row.identifier.title = session.identifier;
    setText(row.cells.age, format.age(now - session.openedMs));
    setText(row.cells.rate, live || session.shownRate > 0 ? format.count(session.shownRate) : '');
    setText(row.cells.samples, format.count(session.samples));
    setText(row.cells.stored, format.bytes(session.storedBytes));
    setText(row.cells.heard, live && session.heardMs != null ? format.age(now - session.heardMs) : '');
    row.sparkline.draw(this.store.rates.get(session.identity) ?? [], RATES_KEPT);
    if (session.identity === this.chosen) row.link.setAttribute('aria-current', 'true');
    else row.link.removeAttribute('aria-current');
  }

  focus(identity) {
    (this.rows.rows.get(identity)?.link ?? byId('sessions-title')).focus();
  }
}
