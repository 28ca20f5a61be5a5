// What the page knows: a whole picture first, then what changes. Comes back by itself after anything.

export const HISTORY = 60;
const RETRY_MS = 1500;
const EVENTS_KEPT = 200;

export class Store {
  constructor(onNews, onLink) {
    this.onNews = onNews;
    this.onLink = onLink;
    this.sessions = new Map();
    this.rates = new Map();
    this.total = [];
    this.rest = null;
    this.events = [];
    this.aheadMs = 0;
    this.source = null;
    this.timer = 0;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.stop() : this.start()));
    this.start();
  }

  now() {
    return Date.now() + this.aheadMs;
  }

  start() {
    if (this.source) return;
    clearTimeout(this.timer);
    this.source = new EventSource('ui/events');
    this.source.onmessage = (message) => this.take(JSON.parse(message.data));
    this.source.onerror = () => {
      this.onLink('lost');
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

  take(news) {
    this.aheadMs = news.atMs - Date.now();
    if (news.sessions) {
      this.sessions = new Map(news.sessions.map((one) => [one.identity, one]));
      this.rates = new Map(Object.entries(news.rates));
      this.events = [];
      this.total = [];
      for (const rates of this.rates.values()) {
        rates.forEach((rate, at) => {
          const place = HISTORY - rates.length + at;
          this.total[place] = (this.total[place] ?? 0) + rate;
        });
      }
      this.total = Array.from({ length: HISTORY }, (_, at) => this.total[at] ?? 0);
    } else {
      for (const one of news.changed ?? []) this.sessions.set(one.identity, one);
      for (const identity of news.gone ?? []) {
        this.sessions.delete(identity);
        this.rates.delete(identity);
      }
      this.tick();
    }
    if (news.rest) this.rest = news.rest;
    if (news.events) this.events = [...this.events, ...news.events].slice(-EVENTS_KEPT);
    this.onLink('live');
    this.onNews(this);
  }

  // One look further: every session has one more rate, changed or not.
  tick() {
    let sum = 0;
    for (const [identity, one] of this.sessions) {
      sum += one.rate;
      const rates = this.rates.get(identity);
      if (!rates && one.rate === 0) continue;
      const longer = [...(rates ?? []), one.rate].slice(-HISTORY);
      this.rates.set(identity, longer);
    }
    this.total = [...this.total, sum].slice(-HISTORY);
  }
}

export const mean = (values, last) => {
  const some = values.slice(-last);
  return some.length ? some.reduce((sum, one) => sum + one, 0) / some.length : 0;
};

export const isLive = (one) => one.state === 'open' || one.state === 'waiting';
