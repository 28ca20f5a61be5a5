// The panes below each other: which channels are in which, their colours, and how they are drawn.

import { byId } from './dom.js';
import { Pane, readStyles } from './pane.js';
import { lineOf } from './lines.js';

const CHANNELS_MAX = 24;
const PANES_MAX = 8;
const GUTTER_MIN = 30;

export class Panes {
  // `onChange`: other channels or panes; `onResize`: another size.
  constructor(onChange, onResize) {
    this.onChange = onChange;
    // Sizes are noted when they change: to ask for them while drawing costs a layout of the page each time.
    this.sizes = new ResizeObserver((entries) => {
      for (const { target, contentRect } of entries) this.panes.find((pane) => pane.canvas === target)?.resize(contentRect);
      onResize();
    });
    this.panes = [];
    this.active = 0;
    this.styles = readStyles();
    this.set([[]]);
    byId('add-pane').addEventListener('click', () => this.add());
  }

  get channels() {
    return this.panes.map((pane) => pane.channels);
  }

  get chosen() {
    return [...new Set(this.channels.flat())];
  }

  set(channels) {
    this.sizes.disconnect();
    const allowed = new Set([...new Set(channels.flat())].slice(0, CHANNELS_MAX));
    const kept = channels.slice(0, PANES_MAX).map((ids) => [...new Set(ids)].filter((id) => allowed.has(id)));
    this.panes = (kept.length ? kept : [[]]).map((ids, index) => this.create(index, ids));
    this.active = 0;
    byId('panes').replaceChildren(...this.panes.map((pane) => pane.element));
    this.changed();
  }

  create(index, channels) {
    const pane = new Pane(index, () => this.remove(pane));
    pane.channels = channels;
    this.sizes.observe(pane.canvas);
    pane.choose.addEventListener('click', () => {
      this.active = this.panes.indexOf(pane);
      this.changed();
    });
    return pane;
  }

  add() {
    if (this.panes.length >= PANES_MAX) return;
    const pane = this.create(this.panes.length, []);
    this.panes.push(pane);
    byId('panes').append(pane.element);
    this.active = this.panes.length - 1;
    this.changed();
  }

  remove(pane) {
    if (this.panes.length < 2) return;
    this.panes.splice(this.panes.indexOf(pane), 1);
    this.sizes.unobserve(pane.canvas);
    pane.element.remove();
    this.active = Math.min(this.active, this.panes.length - 1);
    byId('panes').focus();
    this.changed();
  }

  // Puts a channel into the active pane, or takes it out of all. Gives back why it can't be done, or null.
  toggle(channel, isChosen) {
    if (isChosen) {
      if (this.chosen.length >= CHANNELS_MAX) return `${CHANNELS_MAX} channels are shown at most. Remove one first.`;
      this.panes[this.active].channels.push(channel);
    } else for (const pane of this.panes) pane.channels = pane.channels.filter((id) => id !== channel);
    this.changed();
    return null;
  }

  removeFrom(paneNumber, channel) {
    const pane = this.panes[paneNumber];
    if (pane) pane.channels = pane.channels.filter((id) => id !== channel);
    this.changed();
  }

  changed() {
    this.panes.forEach((pane, index) => pane.number(index, this.panes.length === 1, index === this.active));
    byId('panes').dataset.count = this.panes.length;
    byId('add-pane').disabled = this.panes.length >= PANES_MAX;
    this.onChange();
  }

  restyle() {
    this.styles = readStyles();
  }

  // The space left of the plots, the same for all panes: that of the pane that needs most.
  gutter(channelOf) {
    return Math.max(GUTTER_MIN, ...this.panes.map((pane) => pane.gutter(channelOf)));
  }

  get width() {
    return this.panes[0].width;
  }

  // Lines of each pane. `drawings`: of this session, and of the other one where there is one.
  lines(drawings, nameOf) {
    const { chosen } = this;
    const { tracks } = this.styles;
    // The other session has other colours: dashes alone can't be told from a line where there are many points.
    const colourOf = (id, { isOther }) => tracks[(chosen.indexOf(id) + (isOther ? tracks.length / 2 : 0)) % tracks.length];
    return this.panes.map((pane, number) => drawings.flatMap((drawing) => pane.channels.flatMap((id) => this.line(id, number, colourOf(id, drawing), drawing, nameOf) ?? [])));
  }

  line(id, pane, colour, { model, tracks, isOther, offset }, nameOf) {
    const channel = isOther ? model.channelNamed(nameOf(id)) : model.configuration.channel(id);
    const track = channel && tracks.get(channel.id);
    const session = isOther ? model.document.identifier || model.identity : null;
    return track ? lineOf(channel, track, { colour, pane, session, isOther, offset }) : null;
  }

  draw(paneLines, frame) {
    this.panes.forEach((pane, index) => {
      const isLast = index === this.panes.length - 1;
      pane.draw({ ...frame, lines: paneLines[index], isFirst: index === 0, isLast, styles: this.styles });
    });
  }
}
