// What the supervisor has sent: a whole snapshot first, then what changes. Connects again by itself.

// Rates of a session that a sparkline shows: one for each snapshot, as snapshot.py has it.
export const RATES_KEPT = 60;
const RETRY_MS = 1500;
const EVENTS_KEPT = 200;

export class Store {
  constructor(onUpdate, onConnection) {
    this.onUpdate = onUpdate;
    this.onConnection = onConnection;
    this.sessions = new Map();
    this.rates = new Map();
    this.totalRates = [];
    this.rest = null;
    this.events = [];
    this.aheadMs = 0;
    this.source = null;
    this.timer = 0;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.stop() : this.start()));
    this.start();
  }

  // The time of the supervisor's clock, by its last snapshot.
  now() {
    return Date.now() + this.aheadMs;
  }

  start() {
    if (this.source) return;
    clearTimeout(this.timer);
    this.source = new EventSource('ui/events');
    this.source.onmessage = (message) => this.apply(JSON.parse(message.data));
    this.source.onerror = () => {
      this.onConnection('lost');
      if (this.source && this.source.readyState === EventSource.CLOSED) {
        this.stop();
        this.timer = setTimeout(() => this.start(), RETRY_MS);
      }
    };
  }

  stop() {
    this.source?.close();
    this.source = null;
  }

  apply(update) {
    this.aheadMs = update.atMs - Date.now();
    if (update.sessions) {
      this.sessions = new Map(update.sessions.map((session) => [session.identity, session]));
      this.rates = new Map(Object.entries(update.rates));
      this.events = [];
      this.totalRates = [];
      for (const rates of this.rates.values()) {
        rates.forEach((rate, index) => {
          const position = RATES_KEPT - rates.length + index;
          this.totalRates[position] = (this.totalRates[position] ?? 0) + rate;
        });
      }
      this.totalRates = Array.from({ length: RATES_KEPT }, (_, index) => this.totalRates[index] ?? 0);
    } else {
      for (const session of update.changed ?? []) this.sessions.set(session.identity, session);
      for (const identity of update.gone ?? []) {
        this.sessions.delete(identity);
        this.rates.delete(identity);
      }
      this.addRates();
    }
    if (update.rest) this.rest = update.rest;
    if (update.events) this.events = [...this.events, ...update.events].slice(-EVENTS_KEPT);
    this.onConnection('live');
    this.onUpdate(this);
  }

  // Each snapshot gives every session one more rate, also those that did not change.
  addRates() {
    let sum = 0;
    for (const [identity, session] of this.sessions) {
      sum += session.rate;
      const rates = this.rates.get(identity);
      if (!rates && session.rate === 0) continue;
      this.rates.set(identity, [...(rates ?? []), session.rate].slice(-RATES_KEPT));
    }
    this.totalRates = [...this.totalRates, sum].slice(-RATES_KEPT);
  }
}

// The mean of the last values of a list.
export const mean = (values, last) => {
  const latest = values.slice(-last);
  return latest.length ? latest.reduce((sum, value) => sum + value, 0) / latest.length : 0;
};

export const isLive = (session) => session.state === 'open' || session.state === 'waiting';
