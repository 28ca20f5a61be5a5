// A live plot on one canvas: a strip for each channel, with the lowest and highest value of each step of time.

import { byId, createElement, Rows, setText } from './dom.js';
import * as format from './format.js';

const STRIP = 74;
const GAP = 10;
const AXIS = 20;
const GUTTER = 84;
const TYPES = ['double', 'float', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64'];
const CHANNELS_MAX = 8;
const CHANNELS_LISTED = 300;
const RETRY_MS = 1500;

export class Plot {
  constructor() {
    this.selection = null;
    this.chosen = [];
    this.named = [];
    this.source = null;
    this.timer = 0;
    this.pointer = null;
    this.clear();
    this.canvas = byId('plot');
    for (const type of TYPES) byId('plot-type').append(createElement('option', { value: type }, type));
    byId('plot-window').addEventListener('change', () => this.connect());
    byId('plot-type').addEventListener('change', () => this.connect());
    byId('channel-filter').addEventListener('input', () => this.showChooser());
    byId('channels').addEventListener('change', () => this.choose());
    this.canvas.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.canvas.addEventListener('pointerleave', () => this.point(null));
    this.values = new Rows(byId('plot-values').tBodies[0], (summary) => this.createValue(summary), (row, summary) => this.updateValue(row, summary));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    document.addEventListener('visibilitychange', () => (document.hidden ? this.disconnect() : this.connect()));
  }

  // Shows the channels of { identity } or of { stream }.
  open(selection) {
    this.selection = selection;
    this.chosen = [];
    this.named = [];
    byId('channel-filter').value = '';
    this.showChooser();
    this.connect();
  }

  close() {
    this.selection = null;
    this.disconnect();
  }

  clear() {
    this.tracks = new Map();
    this.last = null;
    this.steps = 1;
    this.stepMs = 1;
  }

  disconnect() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  connect() {
    this.disconnect();
    if (this.selection === null || document.hidden) return;
    const query = new URLSearchParams({
      ...this.selection,
      channels: this.chosen.join(','),
      window_s: byId('plot-window').value,
      type: byId('plot-type').value,
      steps: String(Math.round((this.canvas.clientWidth || 500) - GUTTER)),
    });
    this.source = new EventSource(`ui/plot?${query}`);
    this.source.onmessage = (message) => this.apply(JSON.parse(message.data));
    this.source.onerror = () => {
      if (this.source?.readyState !== EventSource.CLOSED) return;
      this.disconnect();
      this.timer = setTimeout(() => this.connect(), RETRY_MS);
    };
  }

  apply(update) {
    if (update.steps) {
      this.clear();
      this.steps = update.steps;
      this.stepMs = update.stepMs;
    }
    if (update.last != null) this.last = update.last;
    for (const [channel, steps] of Object.entries(update.tracks ?? {})) {
      const track = this.tracks.get(Number(channel)) ?? new Map();
      this.tracks.set(Number(channel), track);
      steps.at.forEach((number, index) => track.set(number, [steps.low[index], steps.high[index]]));
      for (const number of track.keys()) if (number <= this.last - this.steps) track.delete(number);
    }
    if (update.named) {
      this.named = update.named;
      this.chosen = update.chosen;
      this.showChooser();
    }
    this.showNote(update);
    this.draw();
  }

  showNote(update) {
    const texts = [];
    if (update.problem) texts.push(`The stream can't be read: ${update.problem}`);
    if (update.undecodable) texts.push(`${update.undecodable} bursts can't be decoded as ${byId('plot-type').value}; choose another type`);
    if (update.skipped) texts.push('data comes faster than it can be drawn; some of it is not shown');
    if (!this.named.length && !texts.length) texts.push('No samples in the stream yet.');
    setText(byId('plot-note'), texts.join('. '));
  }

  showChooser() {
    const text = byId('channel-filter').value.trim();
    const channels = this.named.filter((channel) => !text || String(channel).includes(text)).slice(0, CHANNELS_LISTED);
    const fieldset = byId('channels');
    const listed = channels.join();
    if (fieldset.dataset.listed !== listed) {
      fieldset.dataset.listed = listed;
      fieldset.replaceChildren(createElement('legend', { class: 'unseen' }, 'Channels'), ...channels.map((channel) => {
        const box = createElement('input', { type: 'checkbox', value: String(channel) });
        return createElement('label', {}, box, createElement('span', {}, String(channel)));
      }));
    }
    for (const box of fieldset.querySelectorAll('input')) {
      box.checked = this.chosen.includes(Number(box.value));
      box.disabled = !box.checked && this.chosen.length >= CHANNELS_MAX;
    }
  }

  choose() {
    const boxes = [...byId('channels').querySelectorAll('input')];
    const listed = new Set(boxes.map((box) => Number(box.value)));
    const unlisted = this.chosen.filter((channel) => !listed.has(channel));
    this.chosen = [...unlisted, ...boxes.filter((box) => box.checked).map((box) => Number(box.value))].sort((a, b) => a - b);
    this.showChooser();
    if (this.chosen.length) this.connect();
    else {
      this.disconnect();
      this.clear();
      this.draw();
    }
  }

  point(x) {
    this.pointer = x;
    this.draw();
  }

  // Lowest and highest value of a channel in the window, and the latest or, under the pointer, the one there.
  summary(channel) {
    const track = this.tracks.get(channel);
    if (!track?.size) return { channel, latest: null, low: null, high: null };
    let [low, high, newest] = [Infinity, -Infinity, -Infinity];
    for (const [number, [stepLow, stepHigh]] of track) {
      low = Math.min(low, stepLow);
      high = Math.max(high, stepHigh);
      newest = Math.max(newest, number);
    }
    const [stepLow, stepHigh] = track.get(this.pointedStep() ?? newest) ?? [null, null];
    return { channel, latest: stepHigh == null ? null : (stepLow + stepHigh) / 2, low, high };
  }

  pointedStep() {
    if (this.pointer === null || this.last === null) return null;
    const share = (this.pointer - GUTTER) / (this.canvas.clientWidth - GUTTER);
    return share < 0 ? null : this.last - this.steps + 1 + Math.round(share * (this.steps - 1));
  }

  createValue(summary) {
    const swatch = createElement('span', { class: 'swatch', 'data-track': String(this.chosen.indexOf(summary.channel) % CHANNELS_MAX), 'aria-hidden': 'true' });
    const cells = [createElement('td', { class: 'number' }), createElement('td', { class: 'number dim' }), createElement('td', { class: 'number dim' })];
    return { element: createElement('tr', {}, createElement('th', { scope: 'row' }, swatch, String(summary.channel)), ...cells), swatch, cells };
  }

  updateValue(row, summary) {
    row.swatch.dataset.track = String(this.chosen.indexOf(summary.channel) % CHANNELS_MAX);
    [summary.latest, summary.low, summary.high].forEach((number, index) => setText(row.cells[index], format.value(number)));
  }

  draw() {
    const summaries = this.chosen.map((channel) => this.summary(channel));
    this.values.show(summaries, (summary) => summary.channel);
    byId('plot-values').hidden = !summaries.length;
    const width = this.canvas.clientWidth;
    const height = summaries.length ? summaries.length * (STRIP + GAP) + AXIS : 0;
    this.canvas.hidden = !summaries.length;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext('2d');
    pen.scale(ratio, ratio);
    const style = getComputedStyle(this.canvas);
    pen.font = `11px ${style.fontFamily}`;
    summaries.forEach((summary, index) => this.drawStrip(pen, summary, index * (STRIP + GAP), width, style));
    this.drawAxis(pen, width, height, style);
  }

  drawStrip(pen, summary, top, width, style) {
    pen.strokeStyle = style.borderTopColor;
    pen.lineWidth = 1;
    pen.strokeRect(GUTTER + 0.5, top + 0.5, width - GUTTER - 1, STRIP);
    pen.fillStyle = style.color;
    pen.textAlign = 'right';
    const label = (text, y) => pen.fillText(text, GUTTER - 8, top + y);
    label(`channel ${summary.channel}`, STRIP / 2 + 4);
    if (summary.low === null) return;
    label(format.value(summary.high), 12);
    label(format.value(summary.low), STRIP - 2);
    const span = summary.high - summary.low || 1;
    const y = (value) => top + STRIP - 5 - ((value - summary.low) / span) * (STRIP - 10);
    const first = this.last - this.steps + 1;
    const scale = (width - GUTTER) / this.steps;
    pen.strokeStyle = getComputedStyle(this.values.rows.get(summary.channel).swatch).backgroundColor;
    pen.lineWidth = 1.4;
    pen.lineJoin = 'round';
    pen.beginPath();
    let previous = null;
    for (const [number, [low, high]] of [...this.tracks.get(summary.channel)].sort((a, b) => a[0] - b[0])) {
      const x = GUTTER + (number - first + 0.5) * scale;
      // A long row of steps without samples is a gap in the line.
      if (previous === null || number - previous > this.steps / 10) pen.moveTo(x, y(low));
      else pen.lineTo(x, y(low));
      if (high !== low) pen.lineTo(x, y(high));
      previous = number;
    }
    pen.stroke();
  }

  drawAxis(pen, width, height, style) {
    if (this.last === null) return;
    pen.fillStyle = style.color;
    const end = (this.last + 1) * this.stepMs;
    const drawTime = (ms, x, align) => {
      const date = new Date(ms);
      pen.textAlign = align;
      if (!Number.isNaN(date.getTime())) pen.fillText(`${date.toISOString().slice(11, 23)} UTC`, x, height - 5);
    };
    drawTime(end - this.steps * this.stepMs, GUTTER, 'left');
    drawTime(end, width, 'right');
    const step = this.pointedStep();
    if (step === null) return;
    pen.strokeStyle = style.color;
    pen.globalAlpha = 0.5;
    pen.beginPath();
    pen.moveTo(this.pointer + 0.5, 0);
    pen.lineTo(this.pointer + 0.5, height - AXIS);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.clearRect(GUTTER, height - AXIS + 2, width - GUTTER, AXIS);
    drawTime(step * this.stepMs, Math.min(Math.max(this.pointer, GUTTER + 50), width - 50), 'center');
  }
}
