// The picture of a session: asks the worker for what is to be drawn, one request at a time, and draws what has come. The
// worker prepares the next picture while this one is drawn.

import { byId, setText } from './dom.js';
import { EventList } from './event_list.js';
import { dayAndClock } from './time_controls.js';
import { ValuesTable } from './values_table.js';

const IDLE_MS = 250;
const CALM_MS = 500;
// Texts that change faster than this can't be read, and cost more than the plots.
const TEXTS_MS = 125;

export class Picture {
  // `view` has models, range, panes, gutter(), plotWidth(), otherOffset(), nameOf(id), controls.
  constructor(view) {
    this.view = view;
    this.calm = matchMedia('(prefers-reduced-motion: reduce)');
    this.values = new ValuesTable((line) => {
      view.panes.removeFrom(line.pane, line.channel);
      // The button that had the focus goes.
      byId('panes').focus({ preventScroll: true });
    });
    this.events = new EventList();
    this.stop();
  }

  stop() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.drawings = [null, null];
    this.asked = false;
    this.isDirty = false;
    this.isArrived = false;
    this.painted = null;
    this.shown = null;
    // The cursor is a time, or a place that a mouse points at while time passes under it.
    this.cursor = null;
    this.pointed = null;
    this.selection = null;
    this.textsAtMs = -Infinity;
    this.askedAtMs = -Infinity;
  }

  get isMoving() {
    const { range, model } = this.view;
    return range.mode !== 'fixed' && Boolean(model?.isMoving || range.mode === 'replay');
  }

  // Whether a picture that moves may change: with each frame, or seldom for who wants less motion.
  get isDue() {
    return !this.calm.matches || performance.now() - this.askedAtMs >= CALM_MS;
  }

  // Something about the view has changed: a new picture is asked for.
  wake() {
    this.isDirty = true;
    this.schedule(0);
  }

  // What was drawn last is drawn again, with another cursor.
  repaint() {
    this.isArrived = true;
    this.schedule(0);
  }

  schedule(delayMs) {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    if (delayMs) this.timer = setTimeout(() => this.loop(), delayMs);
    else this.frame = requestAnimationFrame(() => this.loop());
  }

  loop() {
    const { isMoving } = this;
    if (this.view.model?.document && !document.hidden && !this.asked && (this.isDirty || (isMoving && this.isDue))) this.ask();
    if (this.isArrived && this.drawings[0]) this.paint();
    this.isArrived = false;
    if (!isMoving) this.schedule(IDLE_MS);
    else this.schedule(this.calm.matches ? CALM_MS : 0);
  }

  ask() {
    const { view } = this;
    const { model, range, panes } = view;
    this.isDirty = false;
    this.asked = true;
    const now = performance.now();
    this.askedAtMs = now;
    const [start, end] = range.at(now, model.isMoving);
    const steps = Math.max(50, Math.round(view.plotWidth()));
    model.draw({ start, end, steps, channels: panes.chosen });
    const other = view.models[1];
    if (other?.document) {
      const offset = view.otherOffset();
      const channels = panes.chosen.flatMap((id) => other.channelNamed(view.nameOf(id))?.id ?? []);
      other.watch(channels);
      other.draw({ start: start - offset, end: end - offset, steps, channels });
    }
    if (range.isReplayOver(now)) view.controls.replayEnded();
  }

  // What the worker prepared for one of the sessions.
  receive(message, index) {
    if (index === 0) this.asked = false;
    this.drawings[index] = { ...message, tracks: new Map(message.tracks.map((track) => [track.channel, track])) };
    this.isArrived = true;
    if (!this.isMoving || this.calm.matches) this.schedule(0);
  }

  paint() {
    const { view } = this;
    const [{ request, isLoading, events, tracks }, other] = this.drawings;
    const drawings = [{ model: view.model, tracks, isOther: false, offset: 0 }];
    if (other && view.models[1]) drawings.push({ model: view.models[1], tracks: other.tracks, isOther: true, offset: view.otherOffset() });
    const lines = view.panes.lines(drawings, (id) => view.nameOf(id));
    const { start, end } = request;
    this.shown = { start, end };
    const gutter = view.gutter();
    if (this.pointed != null) this.cursor = start + ((this.pointed - gutter) / view.plotWidth()) * (end - start);
    const named = (event) => ({ ...event, text: view.model.configuration.eventText(event) });
    view.panes.draw(lines, { start, end, gutter, events: events.marks.map(named), cursor: this.cursor, selection: this.selection, base: view.base });
    if (!this.painted?.lines.flat().some((line) => line.count) && lines.flat().some((line) => line.count)) {
      performance.mark('samples drawn');
      // The first values stand in the table as soon as their lines are drawn.
      this.textsAtMs = -Infinity;
    }
    this.painted = { lines, isLoading: isLoading || Boolean(other?.isLoading) };
    this.showTexts(lines, { ...events, listed: events.listed.map(named) });
    // Texts of an axis may need more space than it had.
    if (view.gutter() !== gutter) this.repaint();
  }

  showTexts(lines, events) {
    const now = performance.now();
    if (this.isMoving && now - this.textsAtMs < TEXTS_MS) return;
    this.textsAtMs = now;
    const { view } = this;
    this.values.show(lines.flat(), this.cursor);
    this.events.show(events, view.base);
    setText(byId('cursor-time'), this.cursor == null ? 'at the end of the picture' : dayAndClock(this.cursor, this.shown.end - this.shown.start < 1e9 ? 1e3 : 1e6, view.base));
    setText(byId('plot-note'), this.painted.isLoading ? 'loading history' : view.note);
    view.controls.show();
  }

  pointAt(x) {
    this.pointed = x;
    if (x == null) this.cursor = null;
    this.repaint();
  }

  setCursor(time) {
    this.pointed = null;
    this.cursor = time;
    this.repaint();
  }

  select(range) {
    this.selection = range;
    this.repaint();
  }
}
