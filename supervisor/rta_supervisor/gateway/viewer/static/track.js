// Samples of one channel in the order of their times, each once, in memory that is used again. Pure.

const BLOCK = 64;
const FIRST_CAPACITY = 1024;

export class Track {
  constructor() {
    this.times = new Float64Array(FIRST_CAPACITY);
    this.values = new Float64Array(FIRST_CAPACITY);
    this.start = 0;
    this.end = 0;
    this.lows = [];
    this.highs = [];
    this.sums = [];
    this.numbers = [];
    this.summarised = 0;
  }

  get length() {
    return this.end - this.start;
  }

  get firstTime() {
    return this.length ? this.times[this.start] : NaN;
  }

  get lastTime() {
    return this.length ? this.times[this.end - 1] : NaN;
  }

  // Adds samples. What is there already, with the same time and value, is not added again.
  add(times, values) {
    if (!times.length) return;
    if (!isSorted(times)) [times, values] = sorted(times, values);
    if (!this.length || times[0] > this.times[this.end - 1]) this.append(times, values);
    else this.merge(times, values);
  }

  append(times, values) {
    this.reserve(times.length);
    this.times.set(times, this.end);
    this.values.set(values, this.end);
    this.end += times.length;
  }

  // Samples that overlap with those that are there: the part from their first time on is written anew.
  merge(times, values) {
    const from = this.indexOf(times[0]);
    const oldTimes = this.times.slice(from, this.end);
    const oldValues = this.values.slice(from, this.end);
    this.end = from;
    this.reserve(oldTimes.length + times.length);
    let old = 0;
    let added = 0;
    while (old < oldTimes.length || added < times.length) {
      const isOld = added >= times.length || (old < oldTimes.length && oldTimes[old] <= times[added]);
      const time = isOld ? oldTimes[old] : times[added];
      const value = isOld ? oldValues[old++] : values[added++];
      if (isOld || !this.has(time, value)) {
        this.times[this.end] = time;
        this.values[this.end++] = value;
      }
    }
    this.summarised = Math.min(this.summarised, Math.floor(from / BLOCK) * BLOCK);
  }

  // Whether the last samples have one of this time and value.
  has(time, value) {
    for (let index = this.end - 1; index >= this.start && this.times[index] === time; index--) {
      if (Object.is(this.values[index], value)) return true;
    }
    return false;
  }

  reserve(count) {
    if (this.end + count <= this.times.length) return;
    const first = Math.floor(this.start / BLOCK) * BLOCK;
    const used = this.end - first;
    let capacity = this.times.length;
    while (capacity < (used + count) * 1.25) capacity *= 2;
    const [times, values] = capacity === this.times.length ? [this.times, this.values] : [new Float64Array(capacity), new Float64Array(capacity)];
    times.set(this.times.subarray(first, this.end));
    values.set(this.values.subarray(first, this.end));
    [this.times, this.values] = [times, values];
    this.lows.splice(0, first / BLOCK);
    this.highs.splice(0, first / BLOCK);
    this.sums.splice(0, first / BLOCK);
    this.numbers.splice(0, first / BLOCK);
    this.start -= first;
    this.end -= first;
    this.summarised = Math.max(0, this.summarised - first);
  }

  // Forgets the oldest samples.
  drop(count) {
    this.start = Math.min(this.end, this.start + count);
  }

  // The first sample that is not before a time.
  indexOf(time) {
    let low = this.start;
    let high = this.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The sample at a time or the last one before it, or -1.
  indexAt(time) {
    const index = this.indexOf(time);
    if (index < this.end && this.times[index] === time) return index;
    return index > this.start ? index - 1 : -1;
  }

  summarise() {
    for (; this.summarised + BLOCK <= this.end; this.summarised += BLOCK) {
      const block = this.summarised / BLOCK;
      const { low, high, sum, numbers } = this.scan(this.summarised, this.summarised + BLOCK);
      this.lows[block] = low;
      this.highs[block] = high;
      this.sums[block] = sum;
      this.numbers[block] = numbers;
    }
  }

  scan(from, to) {
    let low = Infinity;
    let high = -Infinity;
    let sum = 0;
    let numbers = 0;
    for (let index = from; index < to; index++) {
      const value = this.values[index];
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
      sum += value;
      numbers += 1;
    }
    return { low, high, sum, numbers };
  }

  // Lowest, highest, sum and number of the finite samples from an index to before another one, by blocks where they are
  // whole.
  summary(from, to) {
    this.summarise();
    const firstBlock = Math.ceil(from / BLOCK);
    const lastBlock = Math.min(Math.floor(to / BLOCK), this.summarised / BLOCK);
    if (firstBlock >= lastBlock) return this.scan(from, to);
    const total = this.scan(from, firstBlock * BLOCK);
    for (let block = firstBlock; block < lastBlock; block++) {
      if (this.lows[block] < total.low) total.low = this.lows[block];
      if (this.highs[block] > total.high) total.high = this.highs[block];
      total.sum += this.sums[block];
      total.numbers += this.numbers[block];
    }
    const rest = this.scan(lastBlock * BLOCK, to);
    return {
      low: Math.min(total.low, rest.low), high: Math.max(total.high, rest.high),
      sum: total.sum + rest.sum, numbers: total.numbers + rest.numbers,
    };
  }
}

function isSorted(times) {
  for (let index = 1; index < times.length; index++) if (times[index] < times[index - 1]) return false;
  return true;
}

function sorted(times, values) {
  const order = Array.from(times.keys()).sort((a, b) => times[a] - times[b] || a - b);
  return [Float64Array.from(order, (index) => times[index]), Float64Array.from(order, (index) => values[index])];
}
