// History over REST: envelopes of channels in tiles, and events. Asks for what a picture needs and no tile has yet.

import { addPoint, addSample, emptyEnvelope } from './envelope.js';
import { TILE_STEPS, tileSpan } from './tiles.js';

const REQUESTS_MAX = 2;
const CHANNELS_PER_REQUEST = 32;
const TILES_PER_REQUEST = 4;
const RETRY_MS = 2000;
const SURVEY_S = 10;
const SURVEY_EVERY_MS = 2000;

export class History {
  // `feed` has tiles, channels, base, known and liveFrom; `tell` reaches the page.
  constructor(address, feed, tell) {
    this.address = address;
    this.feed = feed;
    this.tell = tell;
    this.running = new Map();
    this.retryAt = 0;
    this.eventsUntil = -Infinity;
    this.surveys = 0;
    this.surveyAt = 0;
    this.isStopped = false;
  }

  stop() {
    this.isStopped = true;
    for (const abort of this.running.values()) abort.abort();
  }

  // Asks for the tiles that a picture lacks. Gives back whether anything is on its way or still to be asked for.
  want(channels, level, start, end) {
    const { feed } = this;
    if (feed.known === -Infinity) return false;
    this.wantEvents();
    if (feed.isSurveying) this.wantChannels();
    const missing = new Map();
    for (const channel of channels) {
      const liveFrom = feed.boundary(channel, level);
      const { kind } = feed.channel(channel);
      for (const { number, isWhole } of feed.tiles.missing(channel, level, start, end, feed.known, liveFrom)) {
        const key = `${kind}/${isWhole}/${number}`;
        if (!missing.has(key)) missing.set(key, { kind, isWhole, number, channels: [] });
        missing.get(key).channels.push(channel);
      }
    }
    if (!missing.size) return false;
    if (Date.now() >= this.retryAt) for (const request of requests([...missing.values()])) this.ask(request, level);
    return true;
  }

  ask({ kind, isWhole, first, last, channels }, level) {
    const key = `${kind}/${isWhole}/${level}/${first}/${channels.join()}`;
    if (this.running.has(key) || this.running.size >= REQUESTS_MAX || this.isStopped) return;
    const span = tileSpan(level);
    const { feed } = this;
    const until = feed.known;
    const range = { start: first * span, end: (last + 1) * span - 1 };
    const ids = channels.map((channel) => channel.toString(16)).join(',');
    const query = isWhole ? range : { ...range, resolution: TILE_STEPS * (last - first + 1) };
    this.run(key, `data/${kind}/${ids}`, query, 'text/csv', (text) => {
      const parse = isWhole ? parseSamples : parseEnvelopes;
      const envelopes = parse(text, feed.base.nanoseconds, first, last, span);
      for (const channel of channels) {
        for (let number = first; number <= last; number++) {
          const envelope = envelopes.get(`${channel}/${number}`) ?? emptyEnvelope();
          feed.tiles.put(channel, level, number, { envelope, until: Math.min(until, (number + 1) * span), isWhole });
        }
      }
    });
  }

  wantEvents() {
    const { feed } = this;
    if (this.eventsUntil >= Math.min(feed.eventsFrom, feed.known) || this.running.has('events') || Date.now() < this.retryAt) return;
    const until = feed.known;
    this.run('events', 'data/events', {}, 'application/x-ndjson', (text) => {
      this.eventsUntil = until;
      for (const line of text.split('\n')) if (line) feed.events.add(parseEvent(line, feed.base.nanoseconds));
    });
  }

  // Which channels there are, for a session without a configuration: those of its last seconds, then those of all of it,
  // and of a live one those that begin later.
  wantChannels() {
    const { feed } = this;
    if (feed.known === -Infinity || this.running.has('survey') || Date.now() < Math.max(this.retryAt, this.surveyAt)) return;
    const range = this.surveys === 1 ? {} : { start: feed.known - SURVEY_S * 1e9, end: feed.known };
    this.run('survey', 'data/timestamped/-', { ...range, resolution: 1 }, 'text/csv', (text) => {
      this.surveys += 1;
      if (this.surveys > 1) this.surveyAt = feed.live ? Date.now() + SURVEY_EVERY_MS : Infinity;
      this.tell({ kind: 'seen', channels: [...new Set(csvLines(text).map((line) => Number.parseInt(line, 10)))] });
    });
  }

  async run(key, path, query, accept, take) {
    const abort = new AbortController();
    this.running.set(key, abort);
    try {
      const url = new URL(`${this.address}/${path}`);
      for (const [name, value] of Object.entries(query)) {
        url.searchParams.set(name, name === 'resolution' ? value : String(this.feed.base.nanoseconds + BigInt(Math.round(value))));
      }
      const response = await fetch(url, { headers: { Accept: accept }, signal: abort.signal });
      if (!response.ok) throw new Error(await refusal(response));
      take(await response.text());
      if (this.hasFailed) this.tell({ kind: 'problem', text: null });
      this.hasFailed = false;
      this.finish(key);
    } catch (error) {
      if (this.isStopped) return;
      this.hasFailed = true;
      this.retryAt = Date.now() + RETRY_MS;
      this.tell({ kind: 'problem', text: `History can’t be read: ${error.message} Trying again.` });
      setTimeout(() => this.finish(key), RETRY_MS);
    }
  }

  // Lets the page ask for its picture again: something has come, or may be tried once more.
  finish(key) {
    this.running.delete(key);
    if (!this.isStopped) this.tell({ kind: 'loaded' });
  }
}

// Why the gateway refused, in its own words where it has some.
async function refusal(response) {
  const problem = await response.json().catch(() => null);
  return problem?.detail ?? `The gateway answered with ${response.status}.`;
}

// Missing tiles as few requests: of the same channels and neighbouring spans together.
function requests(missing) {
  const list = [];
  for (const { kind, isWhole, number, channels } of missing.sort((a, b) => b.number - a.number)) {
    for (let at = 0; at < channels.length; at += CHANNELS_PER_REQUEST) {
      const part = channels.slice(at, at + CHANNELS_PER_REQUEST);
      const before = list.find((other) => other.kind === kind && other.isWhole === isWhole && other.first === number + 1 && other.last - other.first + 1 < TILES_PER_REQUEST && other.channels.join() === part.join());
      if (before) before.first = number;
      else list.push({ kind, isWhole, first: number, last: number, channels: part });
    }
  }
  return list;
}

// Envelopes by channel and tile out of CSV: channel, perhaps a name, time, min, max, mean, samples. A name may hold
// commas, so columns are counted from the end.
export function parseEnvelopes(text, baseNs, first, last, span) {
  const envelopes = new Map();
  for (const line of csvLines(text)) {
    const fields = line.split(',');
    const [time, low, high, mean, count] = fields.slice(-5);
    const offset = Number(BigInt(time) - baseNs);
    const key = `${Number(fields[0])}/${Math.min(last, Math.max(first, Math.floor(offset / span)))}`;
    let envelope = envelopes.get(key);
    if (!envelope) {
      envelope = emptyEnvelope();
      envelope.step = span / TILE_STEPS;
      envelopes.set(key, envelope);
    }
    addPoint(envelope, offset, Number(low), Number(high), Number(mean), Number(count), Number(mean) * Number(count));
  }
  return envelopes;
}

const NOT_FINITE = { '': NaN, inf: Infinity, '-inf': -Infinity };

// Samples by channel and tile out of CSV: channel, perhaps a name, time, value. The value of a sample may be empty.
export function parseSamples(text, baseNs, first, last, span) {
  const envelopes = new Map();
  for (const line of csvLines(text)) {
    const fields = line.split(',');
    const [time, valueText] = fields.slice(-2);
    const offset = Number(BigInt(time) - baseNs);
    const key = `${Number(fields[0])}/${Math.min(last, Math.max(first, Math.floor(offset / span)))}`;
    if (!envelopes.has(key)) envelopes.set(key, emptyEnvelope());
    addSample(envelopes.get(key), offset, NOT_FINITE[valueText] ?? Number(valueText));
  }
  return envelopes;
}

// The lines of CSV after its header.
function csvLines(text) {
  return text.split(/\r?\n/).slice(1).filter(Boolean);
}

// An event out of a line of JSON. Its time has more digits than a number holds, and is read as text.
export function parseEvent(line, baseNs) {
  const fields = JSON.parse(line);
  const time = /"time"\s*:\s*(-?\d+)/.exec(line);
  return { id: fields.event, app: fields.application, text: fields.text, raw: fields.data, time: Number(BigInt(time[1]) - baseNs) };
}
