// Events of one session, each once, in the order of their times. Pure.

const EVENTS_MAX = 20_000;
const LISTED_MAX = 200;

export class EventStore {
  constructor() {
    this.events = new Map();
    this.ordered = [];
    // Whether there were more than are kept: then the first ones are gone.
    this.isCut = false;
  }

  // An event that is there already, from history or live, is not added again.
  add(event) {
    const key = `${event.time}/${event.id}/${event.text}`;
    if (this.events.has(key)) return;
    this.events.set(key, event);
    this.ordered = null;
    if (this.events.size <= EVENTS_MAX) return;
    this.events.delete(this.events.keys().next().value);
    this.isCut = true;
  }

  // What a picture shows of the events from one time to another, both inclusive: `marks`, the first one of each step of
  // time; `listed`, the last ones; and how many there are.
  between(start, end, steps) {
    this.ordered ??= [...this.events.values()].sort((a, b) => a.time - b.time);
    const [from, to] = [this.indexOf(start), this.indexOf(end + 1)];
    const marks = [];
    const step = (end - start) / steps;
    let before = NaN;
    for (let index = from; index < to; index++) {
      const number = Math.floor(this.ordered[index].time / step);
      if (number !== before) marks.push(this.ordered[index]);
      before = number;
    }
    return { marks, listed: this.ordered.slice(Math.max(from, to - LISTED_MAX), to), count: to - from, isCut: this.isCut };
  }

  // The first event that is not before a time.
  indexOf(time) {
    let low = 0;
    let high = this.ordered.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ordered[middle].time < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
