// Everything that the page knows about the data of one session: live samples, history in tiles, events. Lives in the
// worker.

import { emptyEnvelope, gapThreshold, join, packed, reduce } from './envelope.js';
import { EventStore } from './event_store.js';
import { highest, lowest } from './extremes.js';
import { History } from './history.js';
import { LiveConnection } from './live.js';
import { baseOf } from './protobuf.js';
import { levelOf, TileCache } from './tiles.js';
import { Track } from './track.js';

const SAMPLES_MAX = 4_000_000;
const LATE_MS = 1000;
const PLAIN = { type: 'f64', kind: 'timestamped', interval: 0 };

export class SessionFeed {
  // `tell(message)` reaches the page. `session`: identity, addresses of REST and of the WebSocket, base of times,
  // whether it is live.
  constructor(session, tell) {
    this.tell = tell;
    this.base = baseOf(BigInt(session.base));
    this.channels = new Map();
    this.tracks = new Map();
    this.liveFrom = new Map();
    this.pending = new Set();
    // Of samples that came after the session had gone beyond their times: the first and the last time, by channel.
    this.late = new Map();
    this.tiles = new TileCache();
    this.known = session.end == null ? -Infinity : Number(BigInt(session.end) - this.base.nanoseconds);
    this.events = new EventStore();
    // From which time on events come live: older ones are history.
    this.eventsFrom = Infinity;
    this.history = new History(session.rest, this, tell);
    const decoding = {
      base: this.base,
      typeOf: (channel) => this.channel(channel).type,
      isWanted: (channel) => this.tracks.has(channel),
    };
    this.live = session.live ? new LiveConnection(session.live, decoding, this) : null;
    this.live?.start();
  }

  stop() {
    clearTimeout(this.lateTimer);
    this.live?.stop();
    this.history.stop();
  }

  channel(id) {
    return this.channels.get(id) ?? PLAIN;
  }

  describe(channels) {
    this.isSurveying = false;
    for (const channel of channels) this.channels.set(channel.id, channel);
  }

  // Looks for channels, for a session that no configuration describes.
  survey() {
    this.isSurveying = true;
    this.history.wantChannels();
  }

  watch(channels) {
    for (const channel of channels) if (!this.tracks.has(channel)) this.tracks.set(channel, new Track());
    this.live?.subscribe(channels);
  }

  // What the connection says.

  onConnection(state, detail = '') {
    this.tell({ kind: 'connection', state, detail, at: Date.now() });
  }

  // From now on samples of these channels come live. From which time on is known with the next time range: what is
  // older is asked for as history.
  onSubscribed(channels) {
    this.isSubscribing = true;
    for (const channel of channels) {
      this.pending.add(channel);
      this.liveFrom.delete(channel);
    }
  }

  onBurst(burst) {
    if (burst.json !== null) this.tell({ kind: 'session', json: burst.json });
    for (const { channel, times, values } of burst.samples) {
      this.tracks.get(channel).add(times, values);
      this.noteLate(channel, times);
      if (this.pending.has(channel) && this.known === -Infinity) this.liveSince(channel, times[0]);
    }
    for (const event of burst.events) this.events.add(event);
    if (burst.range) this.onRange(burst.range);
    if (burst.samples.length) this.bound();
  }

  onRange({ start, end }) {
    this.grow(Number(end - this.base.nanoseconds));
    if (this.isSubscribing) this.eventsFrom = this.known;
    this.isSubscribing = false;
    for (const channel of [...this.pending]) this.liveSince(channel, this.known);
    if (this.isSurveying) this.history.wantChannels();
    this.tell({ kind: 'range', start: String(start), end: String(end) });
  }

  // Writers of a session need not be equally fast. What was asked for as history before such samples came lacks them.
  noteLate(channel, times) {
    const first = lowest(times);
    if (!(first < this.known)) return;
    const late = this.late.get(channel) ?? { first, last: first };
    this.late.set(channel, { first: Math.min(late.first, first), last: Math.max(late.last, highest(times)) });
    this.lateTimer ??= setTimeout(() => this.expireLate(), LATE_MS);
  }

  // Lets history be asked for again where late samples belong, once no earlier request is on its way.
  expireLate() {
    this.lateTimer = this.history.running.size ? setTimeout(() => this.expireLate(), LATE_MS) : null;
    if (this.lateTimer) return;
    const expired = [...this.late].map(([channel, { first, last }]) => this.tiles.expire(channel, first, last));
    this.late.clear();
    if (expired.some(Boolean)) this.tell({ kind: 'loaded' });
  }

  liveSince(channel, time) {
    this.liveFrom.set(channel, time);
    this.pending.delete(channel);
  }

  // The session has ended while there was no connection: nothing comes live any more, and all of it is history.
  finish(end) {
    this.live?.stop();
    this.live = null;
    this.liveFrom.clear();
    this.eventsFrom = Infinity;
    if (end !== null) this.grow(Number(BigInt(end) - this.base.nanoseconds));
    this.onConnection('over');
  }

  grow(end) {
    this.known = Math.max(this.known, end);
  }

  // Keeps memory bounded: the longest track loses its oldest quarter, which is history from then on.
  bound() {
    let total = 0;
    let longest = null;
    for (const [channel, track] of this.tracks) {
      total += track.length;
      if (!longest || track.length > longest[1].length) longest = [channel, track];
    }
    if (total <= SAMPLES_MAX) return;
    const [channel, track] = longest;
    track.drop(Math.ceil(track.length / 4));
    this.liveFrom.set(channel, Math.max(this.liveFrom.get(channel) ?? -Infinity, track.firstTime));
  }

  // What a plot shows of channels from one time to another, in about so many steps. Asks for what is missing.
  draw({ start, end, steps, channels }) {
    const level = levelOf((end - start) / steps);
    const tracks = channels.map((channel) => this.drawChannel(channel, start, end, steps, level));
    const isLoading = this.history.want(channels, level, start, end);
    return { tracks, events: this.events.between(start, end, steps), isLoading, edge: this.edge(channels) };
  }

  // The latest time of which anything is known: that of the session, or of a sample that came before it was reported.
  edge(channels) {
    return channels.reduce((latest, channel) => Math.max(latest, this.tracks.get(channel)?.lastTime || latest), this.known);
  }

  // Where history ends and live samples begin in a picture: at the end of a step, so that no sample counts twice.
  boundary(channel, level) {
    const step = 2 ** level;
    return Math.ceil((this.liveFrom.get(channel) ?? Infinity) / step) * step;
  }

  drawChannel(channel, start, end, steps, level) {
    const liveFrom = this.boundary(channel, level);
    const past = start < liveFrom ? this.tiles.envelope(channel, level, start, Math.min(end, liveFrom - 1)) : emptyEnvelope();
    const track = this.tracks.get(channel);
    const now = track && end >= liveFrom ? reduce(track, Math.max(start, liveFrom), end, Math.max(1, steps * (end - Math.max(start, liveFrom)) / (end - start))) : emptyEnvelope();
    const envelope = join(past, now);
    // The sample at the end of the picture, where it came live.
    const at = track && end >= liveFrom ? track.indexAt(end) : -1;
    const latest = at >= 0 ? track.values[at] : null;
    return { channel, ...packed(envelope), gap: gapThreshold(envelope, this.channel(channel).interval), latest };
  }
}
