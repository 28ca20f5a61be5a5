// Details of what is chosen: a session with facts, writers, JSON and a link to the viewer, or a stream with facts.

import { byId, createElement, setData, Rows, setText } from './dom.js';
import * as format from './format.js';
import { isLive } from './store.js';
import { viewerAddress } from './viewer_address.js';

export class Detail {
  constructor() {
    this.identity = null;
    this.stream = null;
    this.loadedFor = null;
    this.isLoading = false;
    this.units = new Rows(byId('writers').tBodies[0], createUnit, updateUnit);
    this.facts = new Map();
  }

  open({ identity = null, stream = null }) {
    this.identity = identity;
    this.stream = stream;
    this.loadedFor = null;
    this.session = null;
    const title = identity ?? stream;
    byId('detail').hidden = false;
    for (const part of document.querySelectorAll('.of-session')) part.hidden = identity === null;
    byId('detail-facts').replaceChildren();
    this.facts.clear();
    byId('detail-problem').hidden = true;
    setText(byId('detail-title'), title);
    byId('detail-title').title = title;
    byId('detail-title').focus();
    this.showViewer();
    this.load();
  }

  close() {
    this.identity = null;
    this.stream = null;
    byId('detail').hidden = true;
  }

  // Called for every update: loads the details again if the row of the session changed.
  show(store) {
    if (this.stream !== null) this.showStream(store);
    if (this.identity === null) return;
    const row = store.sessions.get(this.identity);
    const rowText = row ? `${row.state} ${row.samples} ${row.bursts} ${row.lostData}` : 'gone';
    this.now = store.now();
    if (rowText !== this.loadedFor && !this.isLoading) {
      this.loadedFor = rowText;
      this.load();
    } else if (this.session) this.showFacts();
  }

  showStream(store) {
    const row = store.rest?.streams.find((stream) => stream.stream === this.stream);
    if (!row) return;
    this.showFactTexts([
      ['Entries', `${row.entries.toLocaleString('en')} live, ${row.cold_entries.toLocaleString('en')} cold`],
      ['Memory', format.bytes((row.memory_bytes ?? 0) + row.cold_bytes)],
      ['Open sessions', String(row.open_sessions)],
      ['Latest entry', row.last_ms === null ? '–' : `${format.duration(store.now() - row.last_ms)} ago`],
    ]);
  }

  async load() {
    const { identity, stream } = this;
    const isChosen = () => identity === this.identity && stream === this.stream;
    this.isLoading = true;
    let problem = '';
    try {
      const response = await fetch(identity === null ? `ui/stream?${new URLSearchParams({ stream })}` : `ui/session?${new URLSearchParams({ identity })}`);
      const body = await response.json();
      if (!isChosen()) return;
      if (response.ok && identity === null) this.showDays(body.streams.filter((name) => name !== stream));
      else if (response.ok) this.showSession(body);
      else problem = body.problem;
    } catch {
      problem = 'The supervisor does not answer.';
    } finally {
      this.isLoading = false;
    }
    if (isChosen()) {
      setText(byId('detail-problem'), problem);
      byId('detail-problem').hidden = !problem;
    }
  }

  // The link to the session's data in the viewer, or how to get one.
  async showViewer() {
    const { identity } = this;
    let viewer = {};
    try {
      viewer = await (await fetch('ui/viewer')).json();
    } catch { /* the page says by itself that the supervisor does not answer */ }
    if (identity === null || identity !== this.identity) return;
    const { base, note } = viewerAddress(viewer, location.hostname);
    const link = byId('viewer-link');
    link.hidden = !base;
    if (base) link.href = `${base}#${new URLSearchParams({ session: identity })}`;
    setText(byId('viewer-note'), note);
  }

  showDays(days) {
    if (days.length) this.showFactTexts([['Days', days.length === 1 ? days[0] : `${days.length}, ${days[0]} to ${days.at(-1)}`]]);
  }

  showSession(session) {
    this.session = session;
    const state = byId('detail-state');
    setData(state, 'is', session.state);
    setText(state, session.state);
    this.showFacts();
    this.units.show(session.units, (unit) => unit.unit);
    const more = session.unitCount - session.units.length;
    setText(byId('writers-note'), session.unitCount === 0 ? 'Nobody has written yet.' : more > 0 ? `and ${more} more with less` : '');
    byId('writers').hidden = session.unitCount === 0;
    setText(byId('detail-json'), session.json);
  }

  showFacts() {
    const { session } = this;
    const { totals } = session;
    const spanMs = totals.startNs === null ? null : Number((BigInt(totals.endNs) - BigInt(totals.startNs)) / 1000000n);
    const ratio = totals.storedBytes ? (totals.rawBytes / totals.storedBytes).toFixed(2) : null;
    this.showFactTexts([
      ['Stream', `${session.stream}, id ${session.streamSessionId}`],
      ['Opened', `${format.duration((this.now ?? Date.now()) - session.openedMs)} ago by ${session.principal}`],
      ['First data', format.moment(totals.startNs)],
      ['Last data', format.moment(totals.endNs)],
      ['Covers', spanMs === null ? '–' : format.duration(spanMs)],
      ['Samples', `${totals.samples.toLocaleString('en')} in ${totals.bursts.toLocaleString('en')} bursts`],
      ['Stored', format.bytes(totals.storedBytes) + (ratio ? `, compressed ${ratio} times` : '')],
      ['Changes', `${session.version}${isLive(session) ? '' : ', final'}${session.lostData ? ', Redis lost data' : ''}`],
    ]);
  }

  showFactTexts(facts) {
    for (const [name, text] of facts) {
      if (!this.facts.has(name)) {
        const cell = createElement('dd');
        this.facts.set(name, cell);
        byId('detail-facts').append(createElement('div', {}, createElement('dt', {}, name), cell));
      }
      setText(this.facts.get(name), text);
    }
  }
}

function createUnit(unit) {
  const cells = [0, 1, 2].map(() => createElement('td', { class: 'number' }));
  cells.push(createElement('td', { class: 'number wide dim' }));
  return { element: createElement('tr', {}, createElement('th', { scope: 'row', class: 'clip', title: unit.unit }, unit.unit), ...cells), cells };
}

function updateUnit(row, unit) {
  const texts = [format.count(unit.bursts), format.count(unit.samples), format.bytes(unit.storedBytes), format.moment(unit.endNs).slice(11, 23)];
  texts.forEach((text, index) => setText(row.cells[index], text));
}
