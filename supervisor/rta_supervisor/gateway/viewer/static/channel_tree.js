// The chooser of channels: groups, names, units; searchable; a check box for each channel.

import { byId, createElement, setText } from './dom.js';

const SHOWN_MAX = 500;

export class ChannelTree {
  // `onToggle(id, isChosen)` is called when a person checks or clears a channel.
  constructor(onToggle) {
    this.onToggle = onToggle;
    this.channels = [];
    this.chosen = new Set();
    this.closedGroups = new Set();
    byId('channel-search').addEventListener('input', () => this.draw());
    byId('tree').addEventListener('change', ({ target }) => this.onToggle(Number(target.value), target.checked));
    byId('tree').addEventListener('toggle', ({ target }) => this.remember(target), true);
  }

  show(channels, chosen) {
    const key = JSON.stringify(channels.map(({ id, name, unit, group, description }) => [id, name, unit, group, description]));
    const isSame = key === this.key;
    this.key = key;
    this.channels = channels;
    this.chosen = new Set(chosen);
    if (!isSame) this.draw();
    else for (const box of byId('tree').querySelectorAll('input')) box.checked = this.chosen.has(Number(box.value));
  }

  remember({ dataset, open }) {
    if (open) this.closedGroups.delete(dataset.group);
    else this.closedGroups.add(dataset.group);
  }

  draw() {
    const words = byId('channel-search').value.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = this.channels.filter((channel) => words.every((word) => searchText(channel).includes(word)));
    const shown = matching.slice(0, SHOWN_MAX);
    const groups = new Map();
    for (const channel of shown) {
      const group = channel.group.join(' / ');
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(channel);
    }
    const elements = [...groups].sort(([a], [b]) => a.localeCompare(b)).map(([group, channels]) => this.groupElement(group, channels));
    byId('tree').replaceChildren(...elements);
    const more = matching.length > shown.length ? `, ${matching.length - shown.length} more: search for them` : '';
    setText(byId('chooser-note'), words.length ? `${matching.length} of ${this.channels.length}${more}` : `${this.channels.length}${more}`);
  }

  groupElement(group, channels) {
    const list = createElement('ul', {}, ...channels.map((channel) => this.channelElement(channel)));
    if (!group) return list;
    const attributes = { 'data-group': group, ...(this.closedGroups.has(group) ? {} : { open: '' }) };
    return createElement('details', attributes, createElement('summary', {}, group), list);
  }

  channelElement(channel) {
    const box = createElement('input', { type: 'checkbox', value: channel.id });
    box.checked = this.chosen.has(channel.id);
    const unit = channel.unit ? createElement('span', { class: 'note' }, ` ${channel.unit}`) : null;
    const title = channel.description || null;
    return createElement('li', {}, createElement('label', { title }, box, createElement('span', {}, channel.name, unit)));
  }
}

function searchText({ name, unit, description, group, id }) {
  return `${name} ${unit} ${description} ${group.join(' ')} ${id}`.toLowerCase();
}
