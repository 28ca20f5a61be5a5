// One pane of plots on a canvas: axes by unit, a line for each channel, events, gaps, the cursor.

import * as axes from './axes.js';
import { createElement } from './dom.js';
import { highest, lowest } from './extremes.js';

const AXIS_WIDTH = 40;
const AXIS_SPACE = 14;
const AXIS_HEIGHT = 20;
const TOP = 8;
export const RIGHT = 10;
const TRACKS = 8;
const DENSE_PER_PX = 0.5;
// The width of the buttons at the upper right.
const CORNER = 100;
const EVENT_COLOUR = '--odd';
const LABEL_HEIGHT = 13;
const LABEL_COVER = 0.7;

export class Pane {
  constructor(index, onRemove) {
    this.channels = [];
    this.canvas = createElement('canvas', { 'aria-hidden': 'true' });
    this.remove = createElement('button', { type: 'button', class: 'quiet remove', title: 'Remove pane' }, '×');
    this.remove.addEventListener('click', () => onRemove(this));
    this.choose = createElement('button', { type: 'button', class: 'quiet choose' }, `Pane ${index + 1}`);
    this.element = createElement('div', { class: 'pane' }, this.canvas, createElement('div', { class: 'corner' }, this.choose, this.remove));
    this.size = null;
    this.axisWidths = new Map();
  }

  number(index, isOnly, isActive) {
    this.choose.textContent = `Pane ${index + 1}`;
    this.choose.setAttribute('aria-pressed', String(isActive));
    this.remove.setAttribute('aria-label', `Remove pane ${index + 1}`);
    this.element.classList.toggle('active', isActive && !isOnly);
    this.remove.hidden = this.choose.hidden = isOnly;
  }

  get width() {
    return this.size?.width || this.canvas.clientWidth;
  }

  resize({ width, height }) {
    this.size = width && height ? { width, height } : null;
  }

  // The space that the axes need: one for each unit of the chosen channels.
  gutter(channelOf) {
    const units = new Set(this.channels.map((channel) => channelOf(channel).unit));
    return [...units].reduce((width, unit) => width + this.axisWidth(unit), 0);
  }

  // As wide as its widest text was until now, so that plots don't shake while texts change.
  axisWidth(unit) {
    return this.axisWidths.get(unit) ?? AXIS_WIDTH;
  }

  // Draws lines of channels: [{channel, envelope, gap, colour, isOther}] for a range of time.
  draw({ start, end, gutter, lines, events, cursor, selection, base, isFirst, isLast, styles }) {
    if (!this.size) this.resize({ width: this.canvas.clientWidth, height: this.canvas.clientHeight });
    if (!this.size) return;
    const ratio = devicePixelRatio || 1;
    const { width, height } = this.size;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = styles.ground;
    pen.fillRect(0, 0, width, height);
    pen.font = styles.font;
    const area = { left: gutter, right: width - RIGHT, top: TOP, bottom: height - (isLast ? AXIS_HEIGHT : 6) };
    const toX = (time) => area.left + ((time - start) / (end - start)) * (area.right - area.left);
    this.drawTime(pen, area, toX, start, end, base, isLast, styles);
    const scales = this.drawScales(pen, area, lines, styles);
    pen.save();
    pen.beginPath();
    pen.rect(area.left, 0, area.right - area.left, height);
    pen.clip();
    for (const line of lines) drawLine(pen, line, toX, scales.get(line.unit).toY, area, styles);
    drawEvents(pen, events, toX, area, this.labelsEnd(area, isFirst), styles);
    if (selection) drawSelection(pen, selection, area, styles);
    if (cursor != null) drawCursor(pen, toX(cursor), area, styles);
    pen.restore();
  }

  // Up to where there is space for texts of events: in the first pane alone, left of its buttons.
  labelsEnd(area, isFirst) {
    if (!isFirst) return area.left;
    return this.remove.hidden ? area.right : area.right - CORNER;
  }

  drawTime(pen, area, toX, start, end, base, isLast, styles) {
    const ticks = axes.timeTicks(start, end, Math.max(2, (area.right - area.left) / 90), base);
    pen.strokeStyle = styles.edge;
    pen.fillStyle = styles.dim;
    pen.textAlign = 'center';
    pen.textBaseline = 'top';
    pen.lineWidth = 1;
    for (const { time, text } of ticks) {
      const x = Math.round(toX(time)) + 0.5;
      stroke(pen, x, area.top, x, area.bottom);
      if (isLast) pen.fillText(text, Math.min(Math.max(x, area.left + 20), area.right - 26), area.bottom + 5);
    }
  }

  // Scales by unit: the first has its axis next to the plot, the others to its left.
  drawScales(pen, area, lines, styles) {
    const scales = new Map();
    const units = [...new Set(lines.map((line) => line.unit))];
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    let x = area.left - 6;
    units.forEach((unit, index) => {
      const ofUnit = lines.filter((line) => line.unit === unit);
      const axis = axes.valueAxis(...extent(ofUnit), Math.max(2, (area.bottom - area.top) / 34));
      const toY = (value) => area.bottom - ((value - axis.low) / (axis.high - axis.low)) * (area.bottom - area.top);
      scales.set(unit, { toY, axis });
      let widest = 0;
      pen.fillStyle = units.length > 1 ? ofUnit[0].colour : styles.dim;
      axis.ticks.forEach(({ value, text }, tick) => {
        const y = Math.round(toY(value)) + 0.5;
        if (index === 0) {
          pen.strokeStyle = styles.edge;
          stroke(pen, area.left, y, area.right, y);
        }
        const label = tick < axis.ticks.length - 1 || !unit ? text : unit;
        pen.fillText(label, x, Math.min(Math.max(y, 7), area.bottom - 3));
        widest = Math.max(widest, pen.measureText(label).width);
      });
      x -= this.axisWidth(unit);
      this.axisWidths.set(unit, Math.max(this.axisWidths.get(unit) ?? 0, Math.ceil(widest) + AXIS_SPACE));
    });
    return scales;
  }
}

function stroke(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

// The range of values that lines need: that of the configuration where all of them have one and stay within it.
function extent(lines) {
  const [low, high] = [edge(lines, 'lows', lowest, -Infinity), edge(lines, 'highs', highest, Infinity)];
  const ranges = lines.map((line) => line.range);
  if (ranges.every(Boolean)) {
    const [min, max] = [Math.min(...ranges.map(([from]) => from)), Math.max(...ranges.map(([, to]) => to))];
    if (!(low <= high) || (low >= min && high <= max)) return [min, max];
  }
  return [low, high];
}

// The lowest or highest value of lines. Samples may be infinite: no axis goes so far.
function edge(lines, column, extreme, infinity) {
  const value = extreme(lines.map((line) => extreme(line[column])));
  return value === infinity ? extreme(lines.map((line) => extreme(line[column].filter(Number.isFinite)))) : value;
}

function drawLine(pen, line, toX, toY, area, styles) {
  const { times, lows, highs, lasts, gap } = line;
  pen.strokeStyle = pen.fillStyle = line.colour;
  // Without a GPU, lines of one pixel are drawn several times faster than wider ones, which matters where there are many.
  const isDense = times.length > (area.right - area.left) * DENSE_PER_PX;
  pen.lineWidth = isDense ? 1 : styles.lineWidth;
  pen.lineJoin = isDense ? 'bevel' : 'round';
  pen.setLineDash(line.isOther ? [5, 4] : []);
  pen.beginPath();
  let isDown = false;
  for (let index = 0; index < times.length; index++) {
    if (Number.isNaN(lows[index])) {
      isDown = false;
      continue;
    }
    const x = toX(times[index]);
    const isApart = !isDown || times[index] - times[index - 1] > gap;
    if (isApart) pen.moveTo(x, toY(highs[index]));
    else pen.lineTo(x, toY(highs[index]));
    if (lows[index] !== highs[index]) {
      pen.lineTo(x, toY(lows[index]));
      pen.lineTo(x, toY(lasts[index]));
    }
    const isAlone = isApart && (index + 1 >= times.length || times[index + 1] - times[index] > gap);
    if (isAlone) pen.rect(x - 1.5, toY(lasts[index]) - 1.5, 3, 3);
    isDown = true;
  }
  pen.stroke();
  pen.setLineDash([]);
}

// `labelsEnd`: up to where there is space for texts.
function drawEvents(pen, events, toX, area, labelsEnd, styles) {
  pen.strokeStyle = pen.fillStyle = styles.event;
  pen.textAlign = 'left';
  pen.textBaseline = 'top';
  let freeFrom = area.left;
  let before = null;
  for (const { time, text } of events) {
    const x = Math.round(toX(time)) + 0.5;
    // Where many are at one place, one mark stands for them.
    if (x === before) continue;
    before = x;
    pen.setLineDash([2, 3]);
    stroke(pen, x, area.top, x, area.bottom);
    pen.setLineDash([]);
    pen.beginPath();
    pen.moveTo(x - 4, 0);
    pen.lineTo(x + 4, 0);
    pen.lineTo(x, 7);
    pen.fill();
    if (x + 5 <= freeFrom) continue;
    const label = text.length > 40 ? `${text.slice(0, 39)}…` : text;
    const width = pen.measureText(label).width;
    // To the right of its mark, at the edge to the left of it, and not at all over another one or an axis.
    const left = x + 5 + width <= labelsEnd ? x + 5 : x - 5 - width;
    if (left > freeFrom && left + width <= labelsEnd) {
      // Lines behind a text make it hard to read: they are paler there.
      pen.fillStyle = styles.ground;
      pen.globalAlpha = LABEL_COVER;
      pen.fillRect(left - 2, area.top - 1, width + 4, LABEL_HEIGHT);
      pen.globalAlpha = 1;
      pen.fillStyle = styles.event;
      pen.fillText(label, left, area.top);
      freeFrom = left + width + 8;
    }
  }
}

function drawCursor(pen, x, area, styles) {
  pen.strokeStyle = styles.text;
  pen.lineWidth = 1;
  stroke(pen, Math.round(x) + 0.5, area.top, Math.round(x) + 0.5, area.bottom);
}

// The range that is being chosen with the mouse.
function drawSelection(pen, [left, right], area, styles) {
  pen.fillStyle = styles.accent;
  pen.globalAlpha = 0.18;
  pen.fillRect(Math.min(left, right), area.top, Math.abs(right - left), area.bottom - area.top);
  pen.globalAlpha = 1;
}

// Colours and font of the page as the canvas needs them; they differ by theme.
export function readStyles() {
  const probe = createElement('span', { class: 'unseen' });
  document.body.append(probe);
  const colour = (name) => {
    probe.style.setProperty('color', `var(${name})`);
    return getComputedStyle(probe).color;
  };
  const styles = {
    ground: colour('--card'), edge: colour('--edge'), dim: colour('--dim'), text: colour('--text'), accent: colour('--accent'), event: colour(EVENT_COLOUR),
    tracks: Array.from({ length: TRACKS }, (_, index) => colour(`--track-${index}`)),
    font: '11px system-ui, "DejaVu Sans", sans-serif', lineWidth: 1.4,
  };
  probe.remove();
  return styles;
}
