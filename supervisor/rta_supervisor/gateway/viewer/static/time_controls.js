// The buttons above and the scrubber below the plots: live, length, zoom, replay, position.

import { clockText, DAY_NS } from './axes.js';
import { byId, setText } from './dom.js';
import { NS_PER_S } from './view_range.js';

export class TimeControls {
  constructor(view) {
    this.view = view;
    const on = (id, event, action) => byId(id).addEventListener(event, action);
    on('follow', 'click', () => view.actions.toggle());
    on('span', 'change', () => this.changeSpan(byId('span').value));
    on('zoom-in', 'click', () => view.actions.zoom(1 / 1.5, null));
    on('zoom-out', 'click', () => view.actions.zoom(1.5, null));
    on('earlier', 'click', () => view.actions.page(-1));
    on('later', 'click', () => view.actions.page(1));
    on('replay', 'click', () => this.toggleReplay());
    on('speed', 'change', () => this.changeSpeed());
    on('scrubber', 'input', () => this.seek());
    on('copy-link', 'click', () => this.copyLink());
  }

  get isMoving() {
    return Boolean(this.view.model?.isMoving);
  }

  changeSpan(text) {
    const { view } = this;
    if (text === 'whole') view.range.whole();
    else {
      const span = Number(text) * NS_PER_S;
      const [, end] = view.range.at(performance.now(), this.isMoving);
      if (view.range.mode === 'fixed') view.range.fix(Math.min(end, Math.max(view.range.last, span)) - span, Math.min(end, Math.max(view.range.last, span)));
      else view.range.span = span;
    }
    view.changed();
  }

  toggleReplay() {
    const { view } = this;
    if (!view.range.hasData) return;
    if (view.range.mode === 'replay') view.range.pause(performance.now(), false);
    else {
      const length = view.range.last - view.range.first;
      view.range.replay(Number(byId('speed').value), performance.now());
      if (view.range.span > length / 2) view.range.span = Math.max(length / 10, NS_PER_S);
    }
    view.changed();
  }

  changeSpeed() {
    this.view.range.changeSpeed(Number(byId('speed').value), performance.now());
    this.view.changed();
  }

  replayEnded() {
    this.view.range.pause(performance.now(), false);
    this.view.changed();
  }

  seek() {
    this.view.range.seek(Number(byId('scrubber').value) / 1000, performance.now());
    this.view.changed();
  }

  async copyLink() {
    this.view.writeAddress();
    try {
      await navigator.clipboard.writeText(location.href);
      setText(byId('copy-link'), 'Copied');
    } catch {
      setText(byId('copy-link'), 'In the address bar');
    }
    setTimeout(() => setText(byId('copy-link'), 'Copy link'), 2000);
  }

  // Brings the controls in line with the view.
  show() {
    const { view } = this;
    if (!view.model?.document) return;
    const { range } = view;
    const isLive = view.model.isLive;
    const now = performance.now();
    byId('follow').hidden = !isLive;
    byId('follow').setAttribute('aria-pressed', String(range.mode === 'live'));
    setText(byId('follow'), range.mode === 'live' ? 'Live' : 'Go live');
    byId('follow').title = range.mode === 'live' ? 'Pause (Space)' : 'Go to the end, and on with it (Space)';
    byId('replay-controls').hidden = isLive;
    byId('replay').disabled = !range.hasData;
    byId('replay').setAttribute('aria-pressed', String(range.mode === 'replay'));
    setText(byId('replay'), range.mode === 'replay' ? 'Pause' : 'Replay');
    this.showSpan(range);
    if (document.activeElement !== byId('scrubber') || range.mode !== 'fixed') byId('scrubber').value = Math.round(range.share(now, this.isMoving) * 1000);
    byId('scrubber').disabled = !range.hasData;
    byId('scrubber').setAttribute('aria-valuetext', range.hasData ? clockText(range.at(now, this.isMoving)[1], NS_PER_S, view.base) : 'no data yet');
    const [first, last] = [range.first, range.last].map((time) => (range.hasData ? dayAndClock(time, NS_PER_S, view.base) : ''));
    const isOneDay = range.hasData && clockText(range.first, DAY_NS, view.base) === clockText(range.last, DAY_NS, view.base);
    setText(byId('scrub-start'), first);
    setText(byId('scrub-end'), isOneDay ? clockText(range.last, NS_PER_S, view.base) : last);
  }

  showSpan(range) {
    const select = byId('span');
    const seconds = range.span / NS_PER_S;
    const fitting = [...select.options].find((option) => Number(option.value) === seconds);
    select.querySelector('[value=own]').hidden = Boolean(fitting);
    if (!fitting) setText(select.querySelector('[value=own]'), spanText(seconds));
    select.value = fitting ? fitting.value : 'own';
  }
}

// The clock, with the day where that is not today.
export function dayAndClock(time, step, base) {
  const [day, today] = [clockText(time, DAY_NS, base), clockText(0, DAY_NS, BigInt(Date.now()) * 1_000_000n)];
  return `${day === today ? '' : `${day} `}${clockText(time, step, base)}`;
}

function spanText(seconds) {
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(1)} h`;
  if (seconds >= 120) return `${(seconds / 60).toFixed(1)} min`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(1)} ms` : `${(seconds * 1e6).toFixed(0)} µs`;
}
