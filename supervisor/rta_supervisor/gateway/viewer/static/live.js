// The WebSocket of one session: connects, subscribes, decodes what comes, and connects again by itself.

import { decodeBurst } from './burst.js';
import { decompress } from './lz4.js';
import { subscription } from './protobuf.js';

const PROTOCOL = 'mat.ocs.rta.stream-lz4';
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 10_000;
const SILENT_MS = 8000;
const CLOSED_STATES = new Set(['closed', 'truncated', 'failed', 'abandoned']);

export class LiveConnection {
  // `decoding`: base of times, types of samples, which channels are wanted. `listener` has the methods
  // onConnection(state, detail), onBurst(burst), onSubscribed(channels).
  constructor(address, decoding, listener) {
    this.address = address;
    this.decoding = decoding;
    this.listener = listener;
    this.channels = new Set();
    this.socket = null;
    this.retryMs = RETRY_MIN_MS;
    this.timer = 0;
    this.isOver = false;
    this.isStopped = false;
  }

  start() {
    this.isStopped = false;
    this.connect();
  }

  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
    this.socket?.close();
    this.socket = null;
  }

  connect() {
    const socket = new WebSocket(this.address, PROTOCOL);
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    this.heardAt = Date.now();
    let hasSession = false;
    socket.addEventListener('message', ({ data }) => {
      if (socket !== this.socket) return;
      this.heardAt = Date.now();
      if (!hasSession) {
        hasSession = true;
        this.retryMs = RETRY_MIN_MS;
        this.listener.onConnection('live');
        this.send([...this.channels]);
      }
      this.take(new Uint8Array(data));
    });
    socket.addEventListener('close', ({ code, reason }) => {
      if (socket === this.socket) this.lost(hasSession, code, reason);
    });
  }

  take(frame) {
    try {
      const burst = decodeBurst(decompress(frame), this.decoding);
      if (burst.json !== null) this.isOver = isClosed(burst.json);
      this.listener.onBurst(burst);
    } catch (error) {
      this.listener.onConnection('live', `Some data can’t be read: ${error.message}`);
    }
  }

  lost(hadSession, code, reason) {
    this.socket = null;
    if (this.isStopped) return;
    if (this.isOver) {
      this.listener.onConnection('over');
      return;
    }
    this.listener.onConnection(hadSession || code !== 1000 ? 'lost' : 'absent', reason);
    this.timer = setTimeout(() => this.connect(), this.retryMs);
    this.retryMs = Math.min(RETRY_MAX_MS, this.retryMs * 2);
  }

  // Connects anew where nothing has come for long: the other end of a WebSocket may be gone without a close.
  revive() {
    if (!this.socket || Date.now() - this.heardAt < SILENT_MS) return;
    const socket = this.socket;
    this.lost(true, 0, '');
    socket.close();
  }

  subscribe(channels) {
    const added = channels.filter((channel) => !this.channels.has(channel));
    for (const channel of added) this.channels.add(channel);
    if (added.length && this.socket?.readyState === WebSocket.OPEN) this.send(added);
  }

  send(channels) {
    this.listener.onSubscribed(channels);
    this.socket.send(subscription({ events: true, channels }));
  }
}

function isClosed(json) {
  try {
    return CLOSED_STATES.has(JSON.parse(json).state);
  } catch {
    return false;
  }
}
