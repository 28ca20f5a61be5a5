// Layouts that people saved in this browser: names of channels by pane, and the length of the picture.

import { byId, createElement, setText } from './dom.js';

const KEY = 'rta-viewer-layouts';
const LAYOUTS_MAX = 50;

export class Layouts {
  // `current()` gives the layout to save: {panes: [[name, …], …], spanS}; `apply(layout)` shows one.
  constructor(current, apply) {
    this.apply = apply;
    byId('layout-form').addEventListener('submit', (event) => {
      event.preventDefault();
      const name = byId('layout-name').value.trim();
      if (name) this.save(name, current());
    });
    this.show();
  }

  read() {
    try {
      const layouts = JSON.parse(localStorage.getItem(KEY) ?? '{}');
      return layouts && typeof layouts === 'object' ? layouts : {};
    } catch {
      return {};
    }
  }

  write(layouts) {
    try {
      localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(Object.entries(layouts).slice(-LAYOUTS_MAX))));
      setText(byId('layout-note'), '');
    } catch {
      setText(byId('layout-note'), 'This browser keeps nothing for this page: copy the link instead.');
    }
    this.show();
  }

  save(name, layout) {
    const { [name]: _, ...others } = this.read();
    this.write({ ...others, [name]: layout });
    byId('layout-name').value = '';
  }

  show() {
    const items = Object.entries(this.read()).map(([name, layout]) => {
      const apply = createElement('button', { type: 'button', class: 'quiet' }, name);
      apply.addEventListener('click', () => this.apply(layout));
      const remove = createElement('button', { type: 'button', class: 'quiet remove', 'aria-label': `Delete layout ${name}` }, '×');
      remove.addEventListener('click', () => {
        const { [name]: _, ...others } = this.read();
        this.write(others);
        // The button that had the focus is gone.
        byId('layout-name').focus();
      });
      return createElement('li', {}, apply, remove);
    });
    byId('layout-list').replaceChildren(...items);
  }
}
