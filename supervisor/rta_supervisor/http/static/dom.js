// Creates and changes elements. Text is only ever set as text: nothing that came from a session is parsed as markup.

export const byId = (id) => document.getElementById(id);

export function createElement(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') element.className = value;
    else if (value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// Changes the text of an element if it differs: selections in it stay otherwise.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setData(element, name, value) {
  if (element.dataset[name] !== value) element.dataset[name] = value;
}

const SVG = 'http://www.w3.org/2000/svg';

// A sparkline of the last minute, with the newest value at the right.
export function createSparkline(width, height) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  svg.classList.add('sparkline');
  const area = document.createElementNS(SVG, 'path');
  const line = document.createElementNS(SVG, 'path');
  area.classList.add('area');
  line.classList.add('line');
  svg.append(area, line);
  let drawn = '';
  return {
    element: svg,
    draw(values, length) {
      const highest = Math.max(...values, 1e-9);
      const step = width / (length - 1);
      const first = length - values.length;
      const points = values.map((value, index) => `${((first + index) * step).toFixed(1)} ${(height - 1 - (value / highest) * (height - 2.5)).toFixed(1)}`);
      const path = points.length && values.some((value) => value > 0) ? `M${points.join('L')}` : '';
      if (path === drawn) return;
      drawn = path;
      line.setAttribute('d', path);
      area.setAttribute('d', path ? `${path}V${height}H${(first * step).toFixed(1)}Z` : '');
    },
  };
}

// Rows of a table or list by key. They are changed in place, so that focus and selection stay where they are.
export class Rows {
  constructor(body, create, update) {
    this.body = body;
    this.create = create;
    this.update = update;
    this.rows = new Map();
  }

  show(items, keyOf) {
    const keys = new Set(items.map(keyOf));
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
    let next = this.body.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      let row = this.rows.get(key);
      if (!row) {
        row = this.create(item);
        this.rows.set(key, row);
      }
      if (row.element === next) next = next.nextElementSibling;
      else this.body.insertBefore(row.element, next);
      this.update(row, item);
    }
  }
}
