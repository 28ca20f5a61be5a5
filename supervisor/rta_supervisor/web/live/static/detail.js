// One session: facts, plot, writers and JSON.

import { byId, make, mark, Rows, say } from './dom.js';
import * as format from './format.js';
import { isLive } from './store.js';
import { Plot } from './plot.js';

export class Detail {
  constructor() {
    this.identity = null;
    this.seen = null;
    this.busy = false;
    this.plot = new Plot();
    this.units = new Rows(byId('writers').tBodies[0], createUnit, updateUnit);
    this.facts = new Map();
  }

  open(identity) {
    this.identity = identity;
    this.seen = null;
    this.about = null;
    byId('detail').hidden = false;
    say(byId('detail-title'), identity);
    byId('detail-title').title = identity;
    byId('detail-title').focus();
    this.plot.open(identity);
    this.load();
  }

  close() {
    this.identity = null;
    byId('detail').hidden = true;
    this.plot.close();
  }

  // Told of every look: asks again only for a session that changed.
  show(store) {
    if (this.identity === null) return;
    const one = store.sessions.get(this.identity);
    const seen = one ? `${one.state} ${one.samples} ${one.bursts} ${one.lostData}` : 'gone';
    this.now = store.now();
    if (seen !== this.seen && !this.busy) {
      this.seen = seen;
      this.load();
    } else if (this.about) this.showFacts();
  }

  async load() {
    const identity = this.identity;
    this.busy = true;
    let problem = '';
    try {
      const answer = await fetch(`ui/session?${new URLSearchParams({ identity })}`);
      const document = await answer.json();
      if (identity !== this.identity) return;
      if (answer.ok) this.take(document);
      else problem = document.problem;
    } catch {
      problem = 'The supervisor does not answer.';
    } finally {
      this.busy = false;
    }
    if (identity === this.identity) {
      say(byId('detail-problem'), problem);
      byId('detail-problem').hidden = !problem;
    }
  }

  take(about) {
    this.about = about;
    const state = byId('detail-state');
    mark(state, 'is', about.state);
    say(state, about.state);
    this.showFacts();
    this.units.show(about.units, (one) => one.unit);
    const more = about.unitCount - about.units.length;
    say(byId('writers-note'), about.unitCount === 0 ? 'Nobody has written yet.' : more > 0 ? `and ${more} more with less` : '');
    byId('writers').hidden = about.unitCount === 0;
    say(byId('detail-json'), about.json);
  }

  showFacts() {
    const { about } = this;
    const { totals } = about;
    const spanMs = totals.startNs === null ? null : Number((BigInt(totals.endNs) - BigInt(totals.startNs)) / 1000000n);
    const ratio = totals.storedBytes ? (totals.rawBytes / totals.storedBytes).toFixed(2) : null;
    const facts = [
      ['Stream', `${about.stream}, id ${about.streamSessionId}`],
      ['Opened', `${format.duration((this.now ?? Date.now()) - about.openedMs)} ago by ${about.principal}`],
      ['First data', format.moment(totals.startNs)],
      ['Last data', format.moment(totals.endNs)],
      ['Covers', spanMs === null ? '–' : format.duration(spanMs)],
      ['Samples', `${totals.samples.toLocaleString('en')} in ${totals.bursts.toLocaleString('en')} bursts`],
      ['Stored', format.bytes(totals.storedBytes) + (ratio ? `, compressed ${ratio} times` : '')],
      ['Changes', `${about.version}${isLive(about) ? '' : ', final'}${about.lostData ? ', Redis lost data' : ''}`],
    ];
    for (const [name, text] of facts) {
      if (!this.facts.has(name)) {
        const cell = make('dd');
        this.facts.set(name, cell);
        byId('detail-facts').append(make('div', {}, make('dt', {}, name), cell));
      }
      say(this.facts.get(name), text);
    }
  }
}

function createUnit(one) {
  const cells = [0, 1, 2].map(() => make('td', { class: 'number' }));
  cells.push(make('td', { class: 'number wide dim' }));
  return { element: make('tr', {}, make('th', { scope: 'row', class: 'clip', title: one.unit }, one.unit), ...cells), cells };
}

function updateUnit(row, one) {
  const words = [format.count(one.bursts), format.count(one.samples), format.bytes(one.storedBytes), format.moment(one.endNs).slice(11, 23)];
  words.forEach((text, at) => say(row.cells[at], text));
}
