// The events of what is visible, as a list.

import { clockText } from './axes.js';
import { byId, createElement, setText } from './dom.js';

const SHOWN_MAX = 200;

export class EventList {
  constructor() {
    this.key = '';
  }

  show(events, base) {
    const shown = events.slice(-SHOWN_MAX);
    const key = JSON.stringify(shown.map(({ time, text }) => [time, text]));
    if (key === this.key) return;
    this.key = key;
    setText(byId('events-count'), events.length > SHOWN_MAX ? `(the last ${SHOWN_MAX} of ${events.length})` : `(${events.length})`);
    const items = shown.map(({ time, text, app, raw }) => createElement('li', {},
      createElement('time', {}, clockText(time, 1e6, base)), ` ${text}`,
      createElement('span', { class: 'note' }, [app, ...raw].filter((part) => part !== '').map((part) => ` ${part}`).join(''))));
    byId('events').replaceChildren(...items);
  }
}
