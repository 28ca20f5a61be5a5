// What is visible as a file: samples as CSV or Arrow, the plots as a picture.

import { getBlob, sessionUrl } from './api.js';
import { clockText, DAY_NS } from './axes.js';
import { byId, createElement } from './dom.js';

const MARGIN = 10;
const LINE_HEIGHT = 17;
const SWATCH = 20;
const DASHES = [5, 3];
const TYPES = { csv: 'text/csv', arrow: 'application/vnd.apache.arrow.stream' };

// The button that saves, and what is chosen beside it.
export class Saving {
  // `view` has models, panes, painted, picture, nameOf(id), otherOffset().
  constructor(view) {
    this.view = view;
    this.isSaving = false;
    // That something is being saved, or why it could not be.
    this.note = '';
    byId('export').addEventListener('click', () => this.save(byId('export-form').value));
  }

  async save(form) {
    const { panes, painted, picture, model } = this.view;
    if (!picture.shown || this.isSaving) return;
    this.isSaving = true;
    this.note = 'Saving. A long session takes its time.';
    picture.repaint();
    try {
      if (form === 'png') await savePicture(model.identity, this.caption(), painted.lines.flat(), panes.panes.map((pane) => pane.canvas), panes.styles);
      else await this.saveSamples(form);
      this.note = '';
    } catch (problem) {
      this.note = `It could not be saved: ${problem.message}`;
    }
    this.isSaving = false;
    picture.repaint();
  }

  // The session, and the one beside it: its times are those that are drawn at the same place.
  async saveSamples(form) {
    const { model, other, panes, picture } = this.view;
    const { start, end } = picture.shown;
    await saveSamples(model, panes.chosen.map((id) => model.configuration.channel(id)), start, end, form);
    if (!other?.document) return;
    const offset = this.view.otherOffset();
    const channels = panes.chosen.flatMap((id) => other.channelNamed(this.view.nameOf(id)) ?? []);
    await saveSamples(other, channels, start - offset, end - offset, form);
  }

  // What stands above a picture: the session, and from when to when.
  caption() {
    const { start, end } = this.view.picture.shown;
    const { base, document: session, identity } = this.view.model;
    const [day, ...clocks] = [clockText(start, DAY_NS, base), ...[start, end].map((time) => clockText(time, 1e6, base))];
    return `${session.identifier || identity} · ${day} ${clocks.join(' – ')}`;
  }
}

// Saves samples of channels from one time to another, as the session counts it, both inclusive. Channels of different
// kinds are different files.
async function saveSamples({ identity, base }, channels, start, end, format) {
  const ns = (time) => String(base + BigInt(Math.round(time)));
  const kinds = Map.groupBy(channels, (channel) => channel.kind);
  for (const [kind, ofKind] of kinds) {
    const ids = ofKind.map((channel) => channel.id.toString(16)).join(',');
    const url = new URL(`${sessionUrl(identity)}/data/${kind}/${ids}`);
    url.search = new URLSearchParams({ start: ns(start), end: ns(end) });
    const blob = await getBlob(url, TYPES[format]);
    download(blob, `${fileName(identity)}${kinds.size > 1 ? `-${kind}` : ''}.${format}`);
  }
}

// Saves the plots below each other as one picture, below a caption and the names of their lines.
async function savePicture(identity, caption, lines, canvases, styles) {
  const picture = document.createElement('canvas');
  const ratio = devicePixelRatio || 1;
  const width = Math.max(...canvases.map((canvas) => canvas.width));
  const pen = picture.getContext('2d');
  pen.font = styles.font;
  const names = placeNames(pen, lines, width / ratio);
  const head = Math.round((Math.max(...names.map(({ y }) => y), LINE_HEIGHT) + LINE_HEIGHT) * ratio);
  picture.width = width;
  picture.height = canvases.reduce((height, canvas) => height + canvas.height, head);
  pen.fillStyle = styles.ground;
  pen.fillRect(0, 0, picture.width, picture.height);
  pen.scale(ratio, ratio);
  drawHead(pen, caption, names, styles);
  pen.resetTransform();
  let top = head;
  for (const canvas of canvases) {
    pen.drawImage(canvas, 0, top);
    top += canvas.height;
  }
  const blob = await new Promise((resolve) => picture.toBlob(resolve, 'image/png'));
  download(blob, `${fileName(identity)}.png`);
}

// Names of lines with their places, in as many rows as they need.
function placeNames(pen, lines, width) {
  let [x, y] = [MARGIN, LINE_HEIGHT * 2];
  return lines.map(({ name, unit, session, colour, isOther }) => {
    const text = [session ? `${name}, ${session}` : name, unit].filter(Boolean).join(' ');
    const needed = SWATCH + pen.measureText(text).width + MARGIN * 2;
    if (x > MARGIN && x + needed > width) [x, y] = [MARGIN, y + LINE_HEIGHT];
    const place = { text, colour, isOther, x, y };
    x += needed;
    return place;
  });
}

function drawHead(pen, caption, names, styles) {
  pen.font = styles.font;
  pen.lineWidth = 3;
  pen.fillStyle = styles.text;
  pen.fillText(caption, MARGIN, LINE_HEIGHT);
  for (const { text, colour, isOther, x, y } of names) {
    pen.strokeStyle = colour;
    pen.setLineDash(isOther ? DASHES : []);
    pen.beginPath();
    pen.moveTo(x, y - 4);
    pen.lineTo(x + SWATCH - 4, y - 4);
    pen.stroke();
    pen.fillText(text, x + SWATCH, y);
  }
}

function fileName(identity) {
  return identity.replace(/[^\p{L}\p{N}._-]+/gu, '_').slice(0, 80) || 'session';
}

function download(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = createElement('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
