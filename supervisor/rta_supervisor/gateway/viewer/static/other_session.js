// The session that stands beside the main one: its controls, sessions to choose from, and what is said about it.

import { findSessions } from './api.js';
import { byId, createElement, setText } from './dom.js';
import { textCondition } from './session_list.js';

const SUGGESTED = 50;
const LOST_STATES = new Set(['lost', 'absent']);

export class OtherSession {
  // `view` has model, other, picture, compare(identity), changed().
  constructor(view) {
    this.view = view;
    byId('compare').addEventListener('toggle', () => byId('compare').open && this.suggest());
    byId('other').addEventListener('input', () => this.suggest());
    byId('other').addEventListener('change', () => view.compare(byId('other').value.trim() || null));
    byId('alignment').addEventListener('change', () => view.changed());
  }

  // Offers sessions whose identity or name has what was typed, the newest first.
  async suggest() {
    const text = byId('other').value.trim();
    const sessions = await findSessions(textCondition(text), 0, SUGGESTED).catch(() => []);
    if (text !== byId('other').value.trim()) return;
    const others = sessions.filter(({ identity }) => identity !== this.view.model?.identity);
    byId('other-list').replaceChildren(...others.map(({ identity, identifier, state }) => createElement('option', { value: identity, label: `${identifier || identity} (${state})` })));
  }

  // What its model tells.

  onChange() {
    const session = this.view.other?.document;
    if (!session) return;
    const state = LOST_STATES.has(this.view.other.connection.state) ? `${session.state}, connection lost` : session.state;
    setText(byId('other-note'), `${session.identifier || session.identity} (${state}), dashed`);
    this.view.picture.wake();
  }

  onRange() {
    this.view.picture.wake();
  }

  onDrawn(message) {
    this.view.picture.receive(message, 1);
  }

  onLoaded() {
    this.view.picture.wake();
  }

  onProblem(sentence) {
    if (sentence) setText(byId('other-note'), sentence);
    else this.onChange();
  }
}
