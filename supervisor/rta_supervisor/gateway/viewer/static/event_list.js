// The events of what is visible, as a list.

import { clockText } from './axes.js';
import { byId, createElement, setText } from './dom.js';

export class EventList {
  constructor() {
    this.key = '';
  }

  // `isCut`: whether there are earlier ones, which the page does not keep.
  show({ listed, count, isCut }, base) {
    const key = JSON.stringify(listed.map(({ time, text }) => [time, text]));
    const total = isCut ? `${count}, the page keeps no earlier ones` : count;
    setText(byId('events-count'), count > listed.length ? `(the last ${listed.length} of ${total})` : `(${total})`);
    if (key === this.key) return;
    this.key = key;
    const items = listed.map(({ time, text, app, raw }) => createElement('li', {},
      createElement('time', {}, clockText(time, 1e6, base)), ` ${text}`,
      createElement('span', { class: 'note' }, [app, ...raw].filter((part) => part !== '').map((part) => ` ${part}`).join(''))));
    byId('events').replaceChildren(...items);
  }
}
