// The view of one session: which sessions, panes and times it shows, and what models, controls and the address say to it.

import * as address from './address.js';
import { ChannelTree } from './channel_tree.js';
import { byId, setText } from './dom.js';
import { Layouts } from './layouts.js';
import { OtherSession } from './other_session.js';
import { RIGHT } from './pane.js';
import { Panes } from './panes.js';
import { Picture } from './picture.js';
import { PlotActions } from './plot_actions.js';
import { PlotInput } from './plot_input.js';
import { Saving } from './saving.js';
import { SessionModel } from './session_model.js';
import { TimeControls } from './time_controls.js';
import { NS_PER_S, ViewRange } from './view_range.js';

const FIRST_CHANNELS = 3;
const MAIN = 0;
const OTHER = 1;

export class SessionView {
  constructor(onStatus) {
    this.onStatus = onStatus;
    this.worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
    this.worker.addEventListener('message', ({ data }) => this.models.find((model) => model?.feed === data.feed)?.receive(data));
    this.worker.addEventListener('error', ({ message }) => this.onStatus(this, `The page does not work any more, load it again: ${message}`));
    this.models = [null, null];
    this.range = new ViewRange();
    this.panes = new Panes(() => this.chosenChanged(), () => this.picture?.wake());
    this.tree = new ChannelTree((id, isChosen) => this.choose(id, isChosen));
    this.picture = new Picture(this);
    this.actions = new PlotActions(this);
    this.controls = new TimeControls(this);
    this.layouts = new Layouts(() => this.layout(), (layout) => this.applyLayout(layout));
    this.input = new PlotInput(byId('panes'), this.actions);
    this.saving = new Saving(this);
    this.otherSession = new OtherSession(this);
  }

  get model() {
    return this.models[MAIN];
  }

  get other() {
    return this.models[OTHER];
  }

  get base() {
    return this.model.base;
  }

  // What is drawn now, for tests and the curious.
  get painted() {
    return this.picture.painted;
  }

  // Shows what an address names.
  show(view) {
    if (this.model?.identity !== view.identity) this.open(view);
    else {
      this.wanted = view;
      this.compare(view.other, view.alignment);
      this.applyView();
    }
  }

  open(view) {
    this.close();
    this.wanted = view;
    this.saving.note = '';
    this.range = new ViewRange(view.spanS ?? 60);
    this.hasChannels = view.panes.length > 0;
    this.panes.set(view.panes);
    this.models[MAIN] = new SessionModel(view.identity, this.worker, this);
    this.compare(view.other, view.alignment);
    this.picture.wake();
  }

  close() {
    clearTimeout(this.addressTimer);
    this.picture.stop();
    for (const model of this.models) model?.stop();
    this.models = [null, null];
  }

  compare(identity, alignment = byId('alignment').value) {
    byId('other').value = identity ?? '';
    byId('alignment').value = alignment;
    if ((this.models[OTHER]?.identity ?? null) === identity) return;
    this.models[OTHER]?.stop();
    this.picture.drawings[OTHER] = null;
    this.models[OTHER] = identity ? new SessionModel(identity, this.worker, this.otherSession) : null;
    if (identity) byId('compare').open = true;
    setText(byId('other-note'), '');
    this.changed();
  }

  // What a model tells.

  onChange() {
    const { model } = this;
    if (!model?.document) return;
    if (!this.hasChannels && model.channels.length) {
      this.hasChannels = true;
      this.panes.set([model.channels.slice(0, FIRST_CHANNELS).map((channel) => channel.id)]);
    }
    this.tree.show(model.channels, this.panes.chosen);
    this.watch();
    this.onStatus(this);
    this.picture.wake();
  }

  onRange(first, last) {
    this.range.grow(first, last, performance.now());
    if (this.wanted && (this.model.isDescribed || this.model.document)) this.applyView();
    if (!this.picture.isMoving) this.picture.isDirty = true;
  }

  // Puts the range of the address in force, once the session's times are known.
  applyView() {
    const view = this.wanted;
    if (!this.model?.document) return;
    this.wanted = null;
    if (JSON.stringify(view.panes) !== JSON.stringify(this.panes.channels) && view.panes.length) this.panes.set(view.panes);
    if (view.start != null && view.end != null) this.range.fix(this.model.offset(view.start), this.model.offset(view.end));
    else if (this.model.isLive || view.spanS) this.range.follow(view.spanS);
    else this.range.whole();
    this.controls.show();
    this.picture.wake();
  }

  onDrawn(message) {
    if (message.edge > -Infinity) this.range.grow(message.edge, message.edge, performance.now());
    this.picture.receive(message, MAIN);
  }

  onLoaded() {
    this.picture.wake();
  }

  onProblem(sentence) {
    this.onStatus(this, sentence);
  }

  // How much later times of the other session are drawn than they stand in its own count.
  otherOffset() {
    const other = this.models[OTHER];
    return byId('alignment').value === 'time' ? Number(other.base - this.base) : this.model.first - other.first;
  }

  nameOf(id) {
    return this.model.configuration.channel(id).name;
  }

  gutter() {
    return this.panes.gutter((id) => this.model.configuration.channel(id));
  }

  plotWidth() {
    return Math.max(1, this.panes.width - this.gutter() - RIGHT);
  }

  // What follows from a change of the view.

  changed() {
    if (!this.model) return;
    this.controls?.show();
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => this.writeAddress(), 300);
    this.picture.wake();
  }

  chosenChanged() {
    if (!this.model) return;
    this.hasChannels = true;
    this.tree.show(this.model.channels, this.panes.chosen);
    this.watch();
    this.changed();
  }

  choose(id, isChosen) {
    const refusal = this.panes.toggle(id, isChosen);
    if (!refusal) return;
    this.tree.show(this.model.channels, this.panes.chosen);
    setText(byId('chooser-note'), refusal);
  }

  watch() {
    if (this.model.isDescribed) this.model.watch(this.panes.chosen);
  }

  writeAddress() {
    if (!this.model) return;
    history.replaceState(null, '', address.format(this.view()));
  }

  view() {
    // A replay is brought back where it was.
    const isFixed = this.range.mode !== 'live';
    const [start, end] = this.range.at(performance.now(), false);
    const ns = (time) => String(this.base + BigInt(Math.round(time)));
    return {
      identity: this.model.identity, panes: this.panes.channels, spanS: Math.max(0.001, this.range.span / NS_PER_S),
      start: isFixed ? ns(start) : null, end: isFixed ? ns(end) : null,
      other: this.models[OTHER]?.identity, alignment: byId('alignment').value,
    };
  }

  layout() {
    return { panes: this.panes.channels.map((ids) => ids.map((id) => this.nameOf(id))), spanS: this.range.span / NS_PER_S };
  }

  applyLayout({ panes, spanS }) {
    const ids = new Map(this.model.channels.map((channel) => [channel.name, channel.id]));
    const missing = panes.flat().filter((name) => !ids.has(name));
    this.panes.set(panes.map((names) => names.filter((name) => ids.has(name)).map((name) => ids.get(name))));
    if (spanS > 0 && this.range.mode !== 'fixed') this.range.span = spanS * NS_PER_S;
    if (missing.length) setText(byId('chooser-note'), `This session has no channel ${missing.join(', ')}.`);
    this.changed();
  }

  // What is to be said below the plots.
  get note() {
    if (this.saving.note) return this.saving.note;
    if (!this.range.hasData) return this.model.isLive ? 'There is no data yet.' : 'No data of this session is known.';
    if (!this.panes.chosen.length) return 'Choose a channel to see it.';
    if (this.model.isGone) return 'Nothing is kept of this session: it was trimmed, and is in no archive.';
    return this.model.isTrimmed ? 'Nothing is kept of the beginning of this session: it was trimmed, or never recorded.' : '';
  }

  restyle() {
    this.panes.restyle();
    this.picture.wake();
  }
}
