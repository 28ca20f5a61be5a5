// The table of chosen channels: the value at the cursor, and lowest, highest and mean of what is visible.

import { byId, createElement, Rows, setText } from './dom.js';
import { highest, lowest } from './extremes.js';

export class ValuesTable {
  // `onRemove(channel)` takes a channel out of its pane.
  constructor(onRemove) {
    this.rows = new Rows(byId('values').tBodies[0], (line) => createRow(line, onRemove), updateRow);
  }

  // `lines`: as the panes draw them, with the number of their pane; `cursor`: a time, or null for the end.
  show(lines, cursor) {
    this.rows.show(lines.map((line) => ({ ...line, value: valueAt(line, cursor) })), (line) => `${line.isOther}/${line.channel}/${line.pane}`);
  }
}

function createRow(line, onRemove) {
  const swatch = createElement('span', { class: 'swatch', 'aria-hidden': 'true' });
  const name = createElement('span');
  // Beside the name where there is no space for a column.
  const ownUnit = createElement('span', { class: 'own-unit' });
  const remove = createElement('button', { type: 'button', class: 'quiet remove' }, '×');
  remove.addEventListener('click', () => onRemove(line));
  const cells = ['number value', 'unit', 'number', 'number', 'number mean', 'pane-number'].map((style) => createElement('td', { class: style }));
  const last = cells.at(-1);
  const number = createElement('span');
  last.append(number, remove);
  return { element: createElement('tr', {}, createElement('th', { scope: 'row' }, swatch, name, ownUnit), ...cells), swatch, name, ownUnit, cells, number, remove };
}

function updateRow(row, line) {
  row.swatch.style.setProperty('color', line.colour);
  setText(row.name, line.isOther ? `${line.name}, ${line.session}` : line.name);
  row.swatch.classList.toggle('dashed', line.isOther);
  row.element.title = line.description;
  const [value, unit, low, high, mean] = row.cells;
  setText(value, line.value);
  setText(unit, line.unit);
  setText(row.ownUnit, line.unit ? ` ${line.unit}` : '');
  setText(low, show(line, lowest(line.lows)));
  setText(high, show(line, highest(line.highs)));
  setText(mean, line.count && !line.text ? show(line, line.mean) : '–');
  setText(row.number, String(line.pane + 1));
  row.remove.hidden = line.isOther;
  row.remove.setAttribute('aria-label', `Remove ${line.name}`);
}

// The last value at the cursor or before it. A point that stands for several samples is marked, or shown as a range where
// they are texts.
function valueAt(line, cursor) {
  if (cursor == null && line.latest != null) return show(line, line.latest);
  const index = cursor == null ? line.times.length - 1 : lastAt(line.times, cursor);
  if (index < 0 || (cursor != null && cursor - line.times[index] > line.gap)) return '–';
  const [low, high] = [line.lows[index], line.highs[index]];
  if (!line.isMany(index) || low === high) return show(line, line.lasts[index]);
  return line.text ? `${show(line, low)} … ${show(line, high)}` : `≈ ${show(line, line.lasts[index])}`;
}

// The index of the last time that is not after another one, or -1.
function lastAt(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function show(line, value) {
  if (value == null || !Number.isFinite(value)) return '–';
  return line.text ? line.text(value) : line.format(value);
}
