// The list of sessions: live ones first, filters over all that ever were, page by page.

import { findSessions } from './api.js';
import * as address from './address.js';
import { byId, createElement, Rows, setData, setText } from './dom.js';
import * as format from './format.js';

const PAGE = 50;
const EVERY_MS = 2000;
const IDLE_MS = 30_000;
const LIVE_STATES = ['open', 'waiting'];
const DETAILS_SHOWN = 4;

export class SessionList {
  // `onLoaded`: there was an answer, or none.
  constructor(onLoaded) {
    this.onLoaded = onLoaded;
    // Why there is no answer, and when there last was one.
    this.problem = null;
    this.shownAt = null;
    this.pageIndex = 0;
    // How many pages live sessions fill, as far as they were seen.
    this.livePages = 0;
    this.timer = 0;
    this.isShown = false;
    this.totals = new Map();
    this.rows = new Rows(byId('sessions').tBodies[0], createRow, (row, session) => this.updateRow(row, session));
    const filters = byId('filters');
    filters.addEventListener('submit', (event) => event.preventDefault());
    filters.addEventListener('input', () => this.restart());
    filters.addEventListener('reset', () => setTimeout(() => this.restart()));
    byId('older').addEventListener('click', () => this.turn(1));
    byId('newer').addEventListener('click', () => this.turn(-1));
  }

  show() {
    this.isShown = true;
    this.load();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  restart() {
    this.pageIndex = 0;
    this.load();
  }

  turn(direction) {
    this.pageIndex = Math.max(0, this.pageIndex + direction);
    this.load();
  }

  // All live sessions stand before the others: these begin on the first page that live ones do not fill.
  async load() {
    clearTimeout(this.timer);
    const number = (this.number = (this.number ?? 0) + 1);
    const condition = readFilters();
    const isLive = { state: { $in: LIVE_STATES } };
    try {
      const [live, others] = await Promise.all([
        findSessions(and(condition, isLive), this.pageIndex, PAGE),
        findSessions(and(condition, { $not: isLive }), this.pageIndex - Math.min(this.livePages, this.pageIndex), PAGE),
      ]);
      if (number !== this.number || !this.isShown) return;
      const isFull = live.length === PAGE;
      this.livePages = isFull ? Math.max(this.livePages, this.pageIndex + 1) : Math.min(this.livePages, this.pageIndex);
      this.problem = null;
      this.shownAt = Date.now();
      this.onLoaded();
      this.showSessions(live, isFull ? [] : others, condition);
    } catch (problem) {
      if (number !== this.number || !this.isShown) return;
      this.problem = problem;
      this.onLoaded();
    }
    this.timer = setTimeout(() => this.load(), EVERY_MS);
  }

  showSessions(live, others, condition) {
    const sessions = [...live, ...others];
    this.rows.show(sessions, (session) => session.identity);
    byId('sessions-empty').hidden = sessions.length > 0;
    setText(byId('sessions-empty'), condition ? 'No session fits. Clear the filters to see all.' : 'There are no sessions yet.');
    setText(byId('sessions-count'), `${live.length} live, ${others.length} ended${this.pageIndex ? `, page ${this.pageIndex + 1}` : ''}`);
    byId('newer').hidden = this.pageIndex === 0;
    byId('older').hidden = Math.max(live.length, others.length) < PAGE;
  }

  updateRow(row, session) {
    const isLive = LIVE_STATES.includes(session.state);
    row.link.setAttribute('href', address.format({ identity: session.identity }));
    setText(row.link, session.identifier || session.identity);
    setText(row.state, session.state);
    setData(row.state, 'is', session.state);
    setText(row.identity, session.identity);
    setText(row.began, beginning(session));
    const range = session.timeRange;
    setText(row.length, range ? format.duration((range.endTime - range.startTime) / 1e6) : '–');
    setText(row.rate, isLive ? this.rate(session) : '');
    setText(row.details, detailText(session.details));
    row.element.dataset.live = String(isLive);
  }

  // Samples in a second, out of two answers that differ.
  rate({ identity, rtaSamples: samples, rtaSamplesTime: time }) {
    const atMs = Date.parse(time);
    if (samples == null || Number.isNaN(atMs)) return '–';
    const before = this.totals.get(identity);
    if (before?.atMs === atMs) return Date.now() - before.seenMs > IDLE_MS ? 'idle' : before.text;
    const perS = before ? ((samples - before.samples) * 1000) / (atMs - before.atMs) : NaN;
    const text = perS > 0 ? format.count(Math.round(perS)) : before ? 'idle' : '–';
    this.totals.set(identity, { samples, atMs, text, seenMs: Date.now() });
    return text;
  }
}

function createRow() {
  const link = createElement('a');
  const state = createElement('span', { class: 'state' });
  const [identity, began, length, rate, details] = ['wide mono', 'number', 'number length', 'number rate', 'wide clip'].map((name) => createElement('td', { class: name }));
  const element = createElement('tr', {}, createElement('th', { scope: 'row' }, link), createElement('td', {}, state), identity, began, length, rate, details);
  return { element, link, state, identity, began, length, rate, details };
}

function beginning({ timestamp }) {
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime())) return timestamp ?? '–';
  const ageMs = Date.now() - date.getTime();
  return ageMs >= 0 && ageMs < 86_400_000 ? `${format.age(ageMs)} ago` : date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}

function detailText(details) {
  const entries = Object.entries(details ?? {});
  const text = entries.slice(0, DETAILS_SHOWN).map(([name, value]) => `${name} ${value}`).join(' · ');
  return entries.length > DETAILS_SHOWN ? `${text} …` : text;
}

// What the filters ask for, in the query dialect; null where they are empty.
export function readFilters() {
  const conditions = [];
  const text = byId('search').value.trim();
  if (text) conditions.push(textCondition(text));
  if (byId('state-filter').value) conditions.push({ state: byId('state-filter').value });
  if (byId('stream-filter').value.trim()) conditions.push({ stream: { $startsWith: byId('stream-filter').value.trim() } });
  const detail = byId('detail-filter').value.trim();
  if (detail) conditions.push(detailCondition(detail));
  const [from, to] = [midnight(byId('from-filter').value, 0), midnight(byId('to-filter').value, 1)];
  if (from) conditions.push({ timestamp: { $gte: from } });
  if (to) conditions.push({ timestamp: { $lt: to } });
  return conditions.length ? { $and: conditions } : null;
}

// Sessions whose identity or name has a text in it; null where there is none to look for.
export function textCondition(text) {
  return text ? { $or: [{ identity: { $contains: text } }, { identifier: { $contains: text } }] } : null;
}

// The beginning of a day, or of one that is later, in the zone of the person who looks.
function midnight(day, laterDays) {
  const [year, month, number] = day.split('-').map(Number);
  return day ? new Date(year, month - 1, number + laterDays).toISOString() : null;
}

function detailCondition(text) {
  const [name, ...rest] = text.split('=');
  const path = `details.${name.trim()}`;
  const value = rest.join('=').trim();
  if (!value) return { [path]: { $neq: null } };
  const literals = [{ [path]: value }];
  if (Number.isFinite(Number(value))) literals.push({ [path]: Number(value) });
  if (value === 'true' || value === 'false') literals.push({ [path]: value === 'true' });
  return { $or: literals };
}

function and(condition, other) {
  return condition ? { $and: [condition, other] } : other;
}
