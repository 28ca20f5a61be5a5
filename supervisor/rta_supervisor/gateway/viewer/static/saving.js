// What is visible as a file: samples as CSV or Arrow, the plots as a picture.

import { getBlob, sessionUrl } from './api.js';
import { createElement } from './dom.js';

const TYPES = { csv: 'text/csv', arrow: 'application/vnd.apache.arrow.stream' };

// Saves samples of channels from one time to another, in ns since 1970, both inclusive. Channels of different kinds are
// different files.
export async function saveSamples(identity, channels, start, end, format) {
  const kinds = Map.groupBy(channels, (channel) => channel.kind);
  for (const [kind, ofKind] of kinds) {
    const ids = ofKind.map((channel) => channel.id.toString(16)).join(',');
    const url = new URL(`${sessionUrl(identity)}/data/${kind}/${ids}`);
    url.search = new URLSearchParams({ start, end });
    const blob = await getBlob(url, TYPES[format]);
    download(blob, `${fileName(identity)}${kinds.size > 1 ? `-${kind}` : ''}.${format}`);
  }
}

// Saves the plots below each other as one picture.
export async function savePicture(identity, canvases, ground) {
  const picture = document.createElement('canvas');
  picture.width = Math.max(...canvases.map((canvas) => canvas.width));
  picture.height = canvases.reduce((height, canvas) => height + canvas.height, 0);
  const pen = picture.getContext('2d');
  pen.fillStyle = ground;
  pen.fillRect(0, 0, picture.width, picture.height);
  let top = 0;
  for (const canvas of canvases) {
    pen.drawImage(canvas, 0, top);
    top += canvas.height;
  }
  const blob = await new Promise((resolve) => picture.toBlob(resolve, 'image/png'));
  download(blob, `${fileName(identity)}.png`);
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
