// One session as the page knows it: its JSON, its configuration, its channels, and its feed in the worker.

import * as api from './api.js';
import { Configuration } from './configuration.js';
import * as exactJson from './exact_json.js';
import { Lag } from './lag.js';

const LIVE_STATES = new Set(['open', 'waiting']);
const AWAY_STATES = new Set(['lost', 'absent']);
const REFUSALS = new Set([401, 403, 404]);
const RETRY_MS = 2000;
const LOOK_MS = 2000;
const LOOK_ANSWER_MS = 4000;
const REVIVE_MS = 10_000;
const BEGINNING_MIN_NS = 1e9;
const BEGINNING_SHARE = 0.01;

// Times count from a multiple of this many ns, 4.9 hours: steps and tiles of history begin at multiples of their length.
const BASE_UNIT = 1n << 44n;

let feeds = 0;

export class SessionModel {
  // `worker` is shared; `listener` has onChange(), onRange(first, last), onDrawn(message), onLoaded(),
  // onProblem(sentence).
  constructor(identity, worker, listener) {
    this.identity = identity;
    // A number that no other session had: what the worker still says about an earlier one reaches nobody.
    this.feed = feeds++;
    this.worker = worker;
    this.listener = listener;
    this.document = null;
    this.configuration = new Configuration();
    this.bindings = '';
    this.base = 0n;
    this.first = 0;
    this.connection = { state: 'waiting', at: Date.now() };
    this.lag = new Lag();
    // When the gateway last gave the present state of the session; and, where it can't any more, why and since when.
    this.currentAt = Date.now();
    this.silence = null;
    // Why the gateway says no more about the session, where it refused that.
    this.refusal = null;
    this.isStopped = false;
    this.seenChannels = new Set();
    this.names = null;
    this.watched = '';
    // Whether nothing is kept of the beginning of the session, or of all of it.
    this.isTrimmed = false;
    this.isGone = false;
    this.load();
  }

  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
    this.post({ kind: 'close' });
  }

  post(message) {
    this.worker.postMessage({ ...message, feed: this.feed });
  }

  // Subscribes to channels.
  watch(channels) {
    const key = channels.join();
    if (key !== this.watched) this.post({ kind: 'watch', channels });
    this.watched = key;
  }

  draw(request) {
    this.post({ kind: 'draw', request });
  }

  get isLive() {
    return LIVE_STATES.has(this.document?.state);
  }

  // Whether data may still come in: the picture scrolls.
  get isMoving() {
    return this.isLive && this.connection.state === 'live';
  }

  async load() {
    try {
      const document = await api.getSession(this.identity);
      if (this.isStopped) return;
      this.connection = { state: 'waiting', at: Date.now() };
      this.listener.onProblem(null);
      this.begin(document);
    } catch (problem) {
      if (this.isStopped) return;
      this.connection = { state: problem.status ? 'refused' : 'lost', at: Date.now() };
      this.listener.onProblem(problem.message);
      this.timer = setTimeout(() => this.load(), RETRY_MS);
    }
  }

  // Opens the feed. Times count from shortly before the data, or the session where there is none yet.
  begin(document) {
    const range = document.timeRange;
    const startMs = Date.parse(document.timestamp);
    const start = range ? BigInt(range.startTime) : BigInt(Number.isNaN(startMs) ? Date.now() : startMs) * 1_000_000n;
    this.base = (start / BASE_UNIT) * BASE_UNIT;
    const session = {
      base: String(this.base), end: range ? String(range.endTime) : null, rest: api.sessionUrl(this.identity).href,
      live: LIVE_STATES.has(document.state) ? api.liveUrl(this.identity) : null,
    };
    this.post({ kind: 'open', session });
    if (!session.live) this.connection = { state: 'over', at: Date.now() };
    this.take(document);
    if (range) this.receiveRange(range.startTime, range.endTime);
    if (session.live) this.timer = setTimeout(() => this.look(), LOOK_MS);
    if (range) this.checkBeginning();
  }

  // Looks for anything in the first part of the session's time: what was trimmed is not there.
  async checkBeginning() {
    const [start, end] = [BigInt(this.document.timeRange.startTime), BigInt(this.document.timeRange.endTime)];
    const part = BigInt(Math.round(Math.max(BEGINNING_MIN_NS, Number(end - start) * BEGINNING_SHARE)));
    try {
      this.isTrimmed = !(await api.hasData(this.identity, start, start + part));
      this.isGone = this.isTrimmed && !this.isLive && !(await api.hasData(this.identity, start, end));
    } catch { /* nothing is known about it, and nothing is said */ }
    if (!this.isStopped) this.listener.onLoaded();
  }

  // Asks REST how far the session is: whether the page is behind, and whether the gateway answers at all. A network that
  // is gone does not close a WebSocket.
  async look() {
    try {
      this.compare(await api.getSession(this.identity, LOOK_ANSWER_MS));
    } catch (problem) {
      this.noteSilence(problem);
    }
    if (!this.isStopped && this.isLive) this.timer = setTimeout(() => this.look(), LOOK_MS);
  }

  // What REST says against what came live. A session may end while there is no connection, and Redis may have forgotten it
  // by the time there could be one.
  compare(document) {
    if (this.isStopped) return;
    const { state, timeRange } = document;
    if (timeRange) this.lag.hear(this.offset(timeRange.endTime), performance.now());
    this.refusal = null;
    this.noteCurrent();
    if (!LIVE_STATES.has(state) && AWAY_STATES.has(this.connection.state)) this.finish(document);
    else if (this.lag.at(performance.now()) > REVIVE_MS) this.post({ kind: 'revive' });
  }

  // The session is over: all of it is history.
  finish(document) {
    const { timeRange } = document;
    this.take(document);
    if (timeRange) this.receiveRange(timeRange.startTime, timeRange.endTime);
    this.post({ kind: 'finish', end: timeRange ? String(timeRange.endTime) : null });
  }

  noteCurrent() {
    this.currentAt = Date.now();
    this.silence = null;
  }

  // The gateway does not answer, or Redis behind it, unless data still comes; or it refuses to say more.
  noteSilence({ status, message }) {
    const isOutage = !status || status >= 500;
    if (REFUSALS.has(status)) this.refusal = message;
    if (isOutage && Date.now() - this.currentAt >= LOOK_MS) this.silence ??= { since: this.currentAt, text: message };
  }

  receiveRange(start, end) {
    this.first = this.offset(start);
    this.lag.reach(this.offset(end));
    this.listener.onRange(this.first, this.offset(end));
  }

  offset(ns) {
    return Number(BigInt(ns) - this.base);
  }

  take(document) {
    this.document = document;
    const bindings = exactJson.stringify(document.configBindings ?? []);
    if (bindings !== this.bindings) {
      this.bindings = bindings;
      this.loadConfiguration(document.configBindings ?? []);
    }
    this.listener.onChange();
  }

  // Without an answer it is asked for again: what a configuration says decides how samples are read.
  async loadConfiguration(bindings) {
    const wanted = this.bindings;
    const configuration = new Configuration();
    let problem = null;
    for (const { identifier, channelOffset } of bindings) {
      try {
        configuration.add(await api.getConfig(identifier), channelOffset ?? 0);
      } catch (error) {
        if (error.status === 404) configuration.problem = `The configuration ${identifier} is not known here: channels are shown by number.`;
        else problem = error;
      }
    }
    if (this.isStopped || wanted !== this.bindings) return;
    if (problem) {
      this.configuration.problem = problem.message;
      setTimeout(() => wanted === this.bindings && !this.isStopped && this.loadConfiguration(bindings), RETRY_MS);
      this.listener.onChange();
      return;
    }
    this.configuration = configuration;
    this.names = null;
    const channels = [...configuration.channels.values()].map(({ id, type, kind, interval }) => ({ id, type, kind, interval }));
    this.post({ kind: 'describe', channels });
    this.isDescribed = true;
    if (!configuration.isKnown) this.post({ kind: 'survey' });
    this.listener.onChange();
  }

  // Channels to choose from: those of the configuration, else those that were seen.
  get channels() {
    if (this.configuration.isKnown) return [...this.configuration.channels.values()];
    return [...this.seenChannels].sort((a, b) => a - b).map((id) => this.configuration.channel(id));
  }

  channelNamed(name) {
    this.names ??= new Map(this.channels.map((channel) => [channel.name, channel]));
    return this.names.get(name);
  }

  // A message of the worker that is about this session.
  receive(message) {
    if (message.kind === 'session') this.receiveJson(message.json);
    else if (message.kind === 'range') {
      this.noteCurrent();
      this.receiveRange(message.start, message.end);
    }
    else if (message.kind === 'connection') this.receiveConnection(message);
    else if (message.kind === 'drawn') this.receiveDrawing(message);
    else if (message.kind === 'loaded') this.listener.onLoaded();
    else if (message.kind === 'seen') this.receiveChannels(message.channels);
    else if (message.kind === 'problem') this.listener.onProblem(message.text);
  }

  receiveDrawing(message) {
    this.lag.reach(message.edge);
    this.listener.onDrawn(message);
  }

  receiveJson(json) {
    try {
      this.take(exactJson.parse(json));
    } catch {
      this.listener.onProblem('The Session JSON can’t be read.');
    }
  }

  receiveConnection({ state, detail, at }) {
    this.connection = { state, detail, at };
    this.listener.onChange();
  }

  receiveChannels(channels) {
    for (const channel of channels) this.seenChannels.add(channel);
    this.names = null;
    this.listener.onChange();
  }
}
