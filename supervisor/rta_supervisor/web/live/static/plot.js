// A live plot: each channel a strip of its own, lowest to highest of each step of time, drawn on one canvas.

import { byId, make, Rows, say } from './dom.js';
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
    this.identity = null;
    this.chosen = [];
    this.named = [];
    this.source = null;
    this.timer = 0;
    this.pointer = null;
    this.clear();
    this.canvas = byId('plot');
    for (const type of TYPES) byId('plot-type').append(make('option', { value: type }, type));
    byId('plot-window').addEventListener('change', () => this.connect());
    byId('plot-type').addEventListener('change', () => this.connect());
    byId('channel-filter').addEventListener('input', () => this.showChooser());
    byId('channels').addEventListener('change', () => this.choose());
    this.canvas.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.canvas.addEventListener('pointerleave', () => this.point(null));
    this.values = new Rows(byId('plot-values').tBodies[0], (one) => this.createValue(one), (row, one) => this.updateValue(row, one));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    document.addEventListener('visibilitychange', () => (document.hidden ? this.disconnect() : this.connect()));
  }

  open(identity) {
    this.identity = identity;
    this.chosen = [];
    this.named = [];
    byId('channel-filter').value = '';
    this.showChooser();
    this.connect();
  }

  close() {
    this.identity = null;
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
    if (this.identity === null || document.hidden) return;
    const query = new URLSearchParams({
      identity: this.identity,
      channels: this.chosen.join(','),
      window_s: byId('plot-window').value,
      type: byId('plot-type').value,
      steps: String(Math.round((this.canvas.clientWidth || 500) - GUTTER)),
    });
    this.source = new EventSource(`ui/plot?${query}`);
    this.source.onmessage = (message) => this.take(JSON.parse(message.data));
    this.source.onerror = () => {
      if (this.source?.readyState !== EventSource.CLOSED) return;
      this.disconnect();
      this.timer = setTimeout(() => this.connect(), RETRY_MS);
    };
  }

  take(news) {
    if (news.steps) {
      this.clear();
      this.steps = news.steps;
      this.stepMs = news.stepMs;
    }
    if (news.last != null) this.last = news.last;
    for (const [channel, found] of Object.entries(news.tracks ?? {})) {
      const track = this.tracks.get(Number(channel)) ?? new Map();
      this.tracks.set(Number(channel), track);
      found.at.forEach((at, place) => track.set(at, [found.low[place], found.high[place]]));
      for (const at of track.keys()) if (at <= this.last - this.steps) track.delete(at);
    }
    if (news.named) {
      this.named = news.named;
      this.chosen = news.chosen;
      this.showChooser();
    }
    this.showNote(news);
    this.draw();
  }

  showNote(news) {
    const words = [];
    if (news.problem) words.push(`The stream can't be read: ${news.problem}`);
    if (news.undecodable) words.push(`${news.undecodable} bursts can't be decoded as ${byId('plot-type').value}; choose another type`);
    if (news.skipped) words.push('data comes faster than it can be drawn; some of it is not shown');
    if (!this.named.length && !words.length) words.push('No samples in the stream yet.');
    say(byId('plot-note'), words.join('. '));
  }

  showChooser() {
    const wanted = byId('channel-filter').value.trim();
    const found = this.named.filter((one) => !wanted || String(one).includes(wanted)).slice(0, CHANNELS_LISTED);
    const set = byId('channels');
    const listed = found.join();
    if (set.dataset.listed !== listed) {
      set.dataset.listed = listed;
      set.replaceChildren(make('legend', { class: 'unseen' }, 'Channels'), ...found.map((one) => {
        const box = make('input', { type: 'checkbox', value: String(one) });
        return make('label', {}, box, make('span', {}, String(one)));
      }));
    }
    for (const box of set.querySelectorAll('input')) {
      box.checked = this.chosen.includes(Number(box.value));
      box.disabled = !box.checked && this.chosen.length >= CHANNELS_MAX;
    }
  }

  choose() {
    const listed = [...byId('channels').querySelectorAll('input')];
    const seen = new Set(listed.map((box) => Number(box.value)));
    const kept = this.chosen.filter((one) => !seen.has(one));
    this.chosen = [...kept, ...listed.filter((box) => box.checked).map((box) => Number(box.value))].sort((a, b) => a - b);
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

  summary(channel) {
    const track = this.tracks.get(channel);
    if (!track?.size) return { channel, latest: null, low: null, high: null };
    let [low, high, newest] = [Infinity, -Infinity, -Infinity];
    for (const [at, [least, most]] of track) {
      low = Math.min(low, least);
      high = Math.max(high, most);
      newest = Math.max(newest, at);
    }
    const at = this.pointedStep();
    const [least, most] = track.get(at ?? newest) ?? [null, null];
    return { channel, latest: most == null ? null : (least + most) / 2, low, high };
  }

  pointedStep() {
    if (this.pointer === null || this.last === null) return null;
    const share = (this.pointer - GUTTER) / (this.canvas.clientWidth - GUTTER);
    return share < 0 ? null : this.last - this.steps + 1 + Math.round(share * (this.steps - 1));
  }

  createValue(one) {
    const swatch = make('span', { class: 'swatch', 'data-track': String(this.chosen.indexOf(one.channel) % CHANNELS_MAX), 'aria-hidden': 'true' });
    const cells = [make('td', { class: 'number' }), make('td', { class: 'number dim' }), make('td', { class: 'number dim' })];
    return { element: make('tr', {}, make('th', { scope: 'row' }, swatch, String(one.channel)), ...cells), swatch, cells };
  }

  updateValue(row, one) {
    row.swatch.dataset.track = String(this.chosen.indexOf(one.channel) % CHANNELS_MAX);
    [one.latest, one.low, one.high].forEach((number, at) => say(row.cells[at], format.value(number)));
  }

  draw() {
    const found = this.chosen.map((channel) => this.summary(channel));
    this.values.show(found, (one) => one.channel);
    byId('plot-values').hidden = !found.length;
    const width = this.canvas.clientWidth;
    const height = found.length ? found.length * (STRIP + GAP) + AXIS : 0;
    this.canvas.hidden = !found.length;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext('2d');
    pen.scale(ratio, ratio);
    const style = getComputedStyle(this.canvas);
    pen.font = `11px ${style.fontFamily}`;
    found.forEach((one, at) => this.drawStrip(pen, one, at * (STRIP + GAP), width, style));
    this.drawAxis(pen, width, height, style);
  }

  drawStrip(pen, one, top, width, style) {
    pen.strokeStyle = style.borderTopColor;
    pen.lineWidth = 1;
    pen.strokeRect(GUTTER + 0.5, top + 0.5, width - GUTTER - 1, STRIP);
    pen.fillStyle = style.color;
    pen.textAlign = 'right';
    const label = (text, y) => pen.fillText(text, GUTTER - 8, top + y);
    label(`channel ${one.channel}`, STRIP / 2 + 4);
    if (one.low === null) return;
    label(format.value(one.high), 12);
    label(format.value(one.low), STRIP - 2);
    const span = one.high - one.low || 1;
    const y = (value) => top + STRIP - 5 - ((value - one.low) / span) * (STRIP - 10);
    const first = this.last - this.steps + 1;
    const scale = (width - GUTTER) / this.steps;
    pen.strokeStyle = getComputedStyle(this.values.rows.get(one.channel).swatch).backgroundColor;
    pen.lineWidth = 1.4;
    pen.lineJoin = 'round';
    pen.beginPath();
    let before = null;
    for (const [at, [low, high]] of [...this.tracks.get(one.channel)].sort((a, b) => a[0] - b[0])) {
      const x = GUTTER + (at - first + 0.5) * scale;
      // A step without samples is a pause in the data once it is long.
      if (before === null || at - before > this.steps / 10) pen.moveTo(x, y(low));
      else pen.lineTo(x, y(low));
      if (high !== low) pen.lineTo(x, y(high));
      before = at;
    }
    pen.stroke();
  }

  drawAxis(pen, width, height, style) {
    if (this.last === null) return;
    pen.fillStyle = style.color;
    const end = (this.last + 1) * this.stepMs;
    const at = (ms, x, align) => {
      const date = new Date(ms);
      pen.textAlign = align;
      if (!Number.isNaN(date.getTime())) pen.fillText(`${date.toISOString().slice(11, 23)} UTC`, x, height - 5);
    };
    at(end - this.steps * this.stepMs, GUTTER, 'left');
    at(end, width, 'right');
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
    at(step * this.stepMs, Math.min(Math.max(this.pointer, GUTTER + 50), width - 50), 'center');
  }
}
