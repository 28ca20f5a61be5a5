// How far the page is behind its session. REST says up to which time there is data; the page is behind for as long as the
// WebSocket has not brought it there. Pure: the clock is passed in.

export class Lag {
  constructor() {
    // When which end of the data was first heard of, for those that were not reached yet.
    this.ends = [];
    this.reached = -Infinity;
  }

  // There is data up to `end`.
  hear(end, nowMs) {
    if (end > this.reached && !(end <= this.ends.at(-1)?.end)) this.ends.push({ end, atMs: nowMs });
  }

  // The WebSocket has brought data, or a time range, up to `end`.
  reach(end) {
    this.reached = Math.max(this.reached, end);
    this.ends = this.ends.filter((heard) => heard.end > this.reached);
  }

  // Milliseconds behind; 0 where everything that was heard of is there.
  at(nowMs) {
    return this.ends.length ? nowMs - this.ends[0].atMs : 0;
  }
}
