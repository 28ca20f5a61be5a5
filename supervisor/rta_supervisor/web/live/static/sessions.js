// The table of sessions: filtered, sorted, and never more rows than a browser likes.

import { byId, make, mark, Rows, say, spark } from './dom.js';
import * as format from './format.js';
import { HISTORY, isLive, mean } from './store.js';

const ROWS_AT_FIRST = 100;
const RATE_OVER_LOOKS = 5;
const SPARK = [90, 20];
const ORDER = { open: 0, waiting: 1, failed: 2, abandoned: 3, truncated: 4, closed: 5 };
const BY = {
  identity: (one) => one.identity,
  state: (one) => ORDER[one.state] ?? 9,
  stream: (one) => one.stream,
  opened: (one) => -one.openedMs,
  rate: (one) => -one.shownRate,
  samples: (one) => -one.samples,
  stored: (one) => -one.storedBytes,
  heard: (one) => -(one.heardMs ?? 0),
};

export class Sessions {
  constructor(hrefOf) {
    this.hrefOf = hrefOf;
    this.sort = 'opened';
    this.reversed = false;
    this.limit = ROWS_AT_FIRST;
    this.chosen = null;
    this.store = null;
    this.rows = new Rows(byId('sessions').tBodies[0], (one) => this.create(one), (row, one) => this.update(row, one));
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
    const button = make('button', { type: 'button' }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      this.reversed = this.sort === head.dataset.sort ? !this.reversed : false;
      this.sort = head.dataset.sort;
      this.show();
    });
  }

  // Arrow keys go from session to session.
  move(event) {
    const step = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
    const row = event.target.closest('tbody tr');
    if (!step || !row) return;
    row[step]?.querySelector('a').focus();
    event.preventDefault();
  }

  matching() {
    const words = byId('filter').value.trim().toLowerCase();
    const which = byId('which').querySelector(':checked').value;
    return [...this.store.sessions.values()].filter((one) => {
      if (which !== 'all' && isLive(one) !== (which === 'live')) return false;
      return !words || one.identity.toLowerCase().includes(words) || one.stream.toLowerCase().includes(words);
    });
  }

  show(store = this.store) {
    if (!store) return;
    this.store = store;
    for (const one of store.sessions.values()) one.shownRate = mean(store.rates.get(one.identity) ?? [], RATE_OVER_LOOKS);
    const found = this.matching();
    const key = BY[this.sort];
    const sign = this.reversed ? -1 : 1;
    found.sort((a, b) => {
      // Live ones stay above the others, however they are sorted.
      const live = isLive(b) - isLive(a);
      if (live && this.sort !== 'identity') return live;
      const [x, y] = [key(a), key(b)];
      return x < y ? -sign : x > y ? sign : a.identity < b.identity ? -1 : 1;
    });
    this.rows.show(found.slice(0, this.limit), (one) => one.identity);
    this.showHeads();
    this.showFoot(found.length);
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
    const words = [`${shown} of ${sessions.size}`];
    if (beyond > 1) words.push(`the ${sessions.size} heard of last; ${format.count(rest.totalSessions)} are live`);
    say(byId('sessions-count'), words.join(' · '));
    byId('more').hidden = shown >= count;
    say(byId('more'), `Show all ${count}`);
    const empty = byId('sessions-empty');
    empty.hidden = count > 0;
    if (count === 0) say(empty, sessions.size ? 'No session matches the filter.' : 'No session yet. Writers open them; they appear here within a second.');
  }

  create(one) {
    const link = make('a', { href: this.hrefOf(one.identity), title: one.identity }, one.identity);
    const lost = make('span', { class: 'tag bad', title: 'Redis lost data of this session' }, 'lost data');
    const line = spark(...SPARK);
    const state = make('span', { class: 'state' });
    const cells = {
      stream: make('td', { class: 'wide dim clip', title: one.stream }, one.stream),
      age: make('td', { class: 'number' }),
      rate: make('td', { class: 'number rate' }),
      samples: make('td', { class: 'number wide extra' }),
      stored: make('td', { class: 'number wider dim' }),
      heard: make('td', { class: 'number wider dim' }),
    };
    const name = make('th', { scope: 'row', class: 'clip' }, link, lost);
    const element = make('tr', {}, name, make('td', {}, state), cells.stream, cells.age, cells.rate, make('td', { class: 'spark' }, line.element), cells.samples, cells.stored, cells.heard);
    return { element, link, lost, line, state, cells };
  }

  update(row, one) {
    const now = this.store.now();
    const live = isLive(one);
    mark(row.state, 'is', one.state);
    say(row.state, one.state);
    mark(row.element, 'live', String(live));
    row.lost.hidden = !one.lostData;
    say(row.cells.age, format.age(now - one.openedMs));
    say(row.cells.rate, live || one.shownRate > 0 ? format.count(one.shownRate) : '');
    say(row.cells.samples, format.count(one.samples));
    say(row.cells.stored, format.bytes(one.storedBytes));
    say(row.cells.heard, live && one.heardMs != null ? format.age(now - one.heardMs) : '');
    row.line.draw(this.store.rates.get(one.identity) ?? [], HISTORY);
    if (one.identity === this.chosen) row.link.setAttribute('aria-current', 'true');
    else row.link.removeAttribute('aria-current');
  }

  focus(identity) {
    (this.rows.rows.get(identity)?.link ?? byId('sessions-title')).focus();
  }
}
