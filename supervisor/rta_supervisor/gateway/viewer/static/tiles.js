// History of channels in tiles: spans of time with a fixed number of steps, whose lengths are powers of two. A tile is
// asked for as an envelope; where that shows few samples, once more for the samples themselves, with their exact times;
// and again only where the session has grown since. Pure.

import { addPoint, emptyEnvelope, join } from './envelope.js';

export const TILE_STEPS = 512;
const LEVEL_MIN = 10;
const LEVEL_MAX = 53;
const TILES_MAX = 1200;

// The level whose steps are not longer than the given one, so that each pixel has a point.
export function levelOf(stepNs) {
  const level = Math.floor(Math.log2(Math.max(stepNs, 1)));
  return Math.min(LEVEL_MAX, Math.max(LEVEL_MIN, level));
}

export function tileSpan(level) {
  return 2 ** level * TILE_STEPS;
}

export class TileCache {
  constructor() {
    // In the order of their last use.
    this.tiles = new Map();
  }

  key(channel, level, number) {
    return `${channel}/${level}/${number}`;
  }

  tile(channel, level, number) {
    const key = this.key(channel, level, number);
    const tile = this.tiles.get(key);
    if (tile) {
      this.tiles.delete(key);
      this.tiles.set(key, tile);
    }
    return tile;
  }

  // Keeps a tile. `until`: the time up to which the session was known when it was asked for; `isWhole`: whether it has
  // the samples themselves, or none.
  put(channel, level, number, { envelope, until, isWhole }) {
    const key = this.key(channel, level, number);
    this.tiles.delete(key);
    this.tiles.set(key, { channel, start: number * tileSpan(level), envelope, until, isWhole: isWhole || envelope.count === 0 });
    for (const oldest of this.tiles.keys()) {
      if (this.tiles.size <= TILES_MAX) break;
      this.tiles.delete(oldest);
    }
  }

  // Samples of a channel from one time to another have come late: tiles of these times are complete only up to there.
  // Gives back whether there are any.
  expire(channel, first, last) {
    const tiles = [...this.tiles.values()].filter((tile) => tile.channel === channel && tile.start <= last && tile.until > first);
    for (const tile of tiles) tile.until = Math.max(tile.start, first);
    return tiles.length > 0;
  }

  // The tiles that a range needs and that are not there for a channel: never asked for, or before the session had grown
  // into them, or without samples although these are few. `known`: up to where the session goes now; `liveFrom`: from
  // where on live samples are kept.
  missing(channel, level, start, end, known, liveFrom) {
    const span = tileSpan(level);
    const missing = [];
    const last = Math.floor(Math.min(end, known, liveFrom) / span);
    for (let number = Math.floor(start / span); number <= last; number++) {
      const tile = this.tile(channel, level, number);
      const needed = Math.min((number + 1) * span, known, liveFrom);
      // How many samples there are now is not known of a tile that is not complete.
      const isComplete = Boolean(tile) && tile.until >= needed;
      const isWhole = isComplete && tile.envelope.count <= TILE_STEPS;
      if (!isComplete || (isWhole && !tile.isWhole)) missing.push({ number, isWhole });
    }
    return missing;
  }

  // The history of a channel from one time to another: of the level where it is there, else of the best coarser one.
  envelope(channel, level, start, end) {
    let whole = emptyEnvelope();
    for (let at = start; at <= end;) {
      const [tile, tileLevel] = this.bestTile(channel, level, at);
      const span = tileSpan(tile ? tileLevel : level);
      const tileEnd = (Math.floor(at / span) + 1) * span;
      if (tile) whole = join(whole, cut(tile.envelope, at, Math.min(end, tileEnd - 1), at === start ? tile.envelope.step : 0));
      at = tileEnd;
    }
    return whole;
  }

  bestTile(channel, level, time) {
    for (let coarser = level; coarser <= LEVEL_MAX; coarser++) {
      const tile = this.tile(channel, coarser, Math.floor(time / tileSpan(coarser)));
      if (tile) return [tile, coarser];
    }
    return [null, level];
  }

  clear() {
    this.tiles.clear();
  }
}

// The points of an envelope within a range, both ends inclusive. `reach`: how long before it a step may have begun.
function cut(envelope, start, end, reach) {
  const part = { ...emptyEnvelope(), step: envelope.step };
  for (let index = 0; index < envelope.times.length; index++) {
    const time = envelope.times[index];
    if (time < start && time + reach <= start) continue;
    if (time > end) break;
    addPoint(part, time, envelope.lows[index], envelope.highs[index], envelope.lasts[index], envelope.counts[index], envelope.sums[index], envelope.numbers[index]);
  }
  return part;
}
