// Which time the plots show: the end of a live session, a fixed range, or a replay. Times in ns from the session's
// base. Pure: the clock is passed in.

export const NS_PER_S = 1e9;
const SPAN_MIN = 1e3;
const WHOLE_MARGIN = 0.01;
const EXTRAPOLATION_MS_MAX = 300;

export class ViewRange {
  constructor(spanS = 60) {
    this.mode = 'live';
    this.span = spanS * NS_PER_S;
    this.start = 0;
    this.first = Infinity;
    this.last = -Infinity;
    this.lastAtMs = 0;
    this.speed = 1;
    this.replayEnd = 0;
    this.replayAtMs = 0;
  }

  // The session reaches from `first` to `last` now.
  grow(first, last, nowMs) {
    this.first = Math.min(this.first, first);
    if (last > this.last) {
      this.last = last;
      this.lastAtMs = nowMs;
    }
  }

  get hasData() {
    return this.last > -Infinity;
  }

  // What is shown at a moment: [start, end]. `isMoving`: whether the session still grows.
  at(nowMs, isMoving) {
    if (this.mode === 'fixed') return [this.start, this.start + this.span];
    if (this.mode === 'replay') {
      const end = Math.min(this.last, this.replayEnd + (nowMs - this.replayAtMs) * 1e6 * this.speed);
      return [end - this.span, end];
    }
    if (!this.hasData) return [-this.span, 0];
    const ahead = isMoving ? Math.min(nowMs - this.lastAtMs, EXTRAPOLATION_MS_MAX) * 1e6 : 0;
    return [this.last + ahead - this.span, this.last + ahead];
  }

  // Shows the end of the session, as long as before or as given.
  follow(spanS = null) {
    this.mode = 'live';
    if (spanS) this.span = spanS * NS_PER_S;
  }

  fix(start, end) {
    this.mode = 'fixed';
    this.span = Math.max(SPAN_MIN, end - start);
    this.start = start;
  }

  whole() {
    if (!this.hasData) return;
    const length = Math.max(this.last - this.first, NS_PER_S);
    this.fix(this.first - length * WHOLE_MARGIN, this.first + length * (1 + WHOLE_MARGIN));
  }

  // Zooms around a place of the picture, 0 at its left and 1 at its right. A live picture stays live.
  zoom(factor, place, nowMs, isMoving) {
    const [start, end] = this.at(nowMs, isMoving);
    const span = Math.max(SPAN_MIN, Math.min((end - start) * factor, this.spanMax));
    if (this.mode === 'fixed') this.fix(start + (end - start - span) * place, start + (end - start - span) * place + span);
    else this.span = span;
  }

  get spanMax() {
    return Math.max((this.last - this.first) * 2, 60 * NS_PER_S);
  }

  pan(distance, nowMs, isMoving) {
    const [start, end] = this.at(nowMs, isMoving);
    this.fix(start + distance, end + distance);
  }

  // Puts the end of the picture at a share of the session, 0 to 1.
  seek(share, nowMs) {
    const end = this.first + (this.last - this.first) * share;
    if (this.mode === 'replay') {
      this.replayEnd = end;
      this.replayAtMs = nowMs;
    } else this.fix(end - this.span, end);
  }

  share(nowMs, isMoving) {
    const [, end] = this.at(nowMs, isMoving);
    return this.last > this.first ? Math.min(1, Math.max(0, (end - this.first) / (this.last - this.first))) : 1;
  }

  // Begins a replay where the picture ends now; from the session's beginning if that is its end.
  replay(speed, nowMs) {
    if (!this.hasData) return;
    const [, end] = this.at(nowMs, false);
    const from = end >= this.last || end < this.first ? this.first : end;
    this.mode = 'replay';
    this.replayEnd = from;
    this.replayAtMs = nowMs;
    this.speed = speed;
  }

  changeSpeed(speed, nowMs) {
    if (this.mode === 'replay') [, this.replayEnd] = this.at(nowMs, false);
    this.replayAtMs = nowMs;
    this.speed = speed;
  }

  // Stops a moving picture where it is.
  pause(nowMs, isMoving) {
    this.fix(...this.at(nowMs, isMoving));
  }

  isReplayOver(nowMs) {
    return this.mode === 'replay' && this.at(nowMs, false)[1] >= this.last;
  }
}
