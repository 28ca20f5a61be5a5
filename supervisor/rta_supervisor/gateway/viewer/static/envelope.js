// What a plot draws of a channel: points with the lowest and highest value of a step of time, or single samples where
// there are few. A point knows whether there is a gap before it. Pure.

const SAMPLES_PER_STEP = 2;
const GAP_INTERVALS = 8;
const GAP_STEPS = 2.5;
const DENSE = 3;

export function emptyEnvelope() {
  return { times: [], lows: [], highs: [], lasts: [], counts: [], sums: [], sum: 0, count: 0, step: 0 };
}

export function addPoint(envelope, time, low, high, last, count, sum) {
  envelope.times.push(time);
  envelope.lows.push(low);
  envelope.highs.push(high);
  envelope.lasts.push(last);
  envelope.counts.push(count);
  envelope.sums.push(sum);
  envelope.count += count;
  envelope.sum += sum;
}

// An envelope as the page gets it: columns in one piece of memory, which moves to the page without a copy.
export function packed({ times, lows, highs, lasts, counts, count, sum }) {
  const columns = [times, lows, highs, lasts, counts];
  const memory = new Float64Array(columns.length * times.length);
  columns.forEach((column, index) => memory.set(column, index * times.length));
  const [timesPart, lowsPart, highsPart, lastsPart, countsPart] = columns.map((_, index) => memory.subarray(index * times.length, (index + 1) * times.length));
  return { times: timesPart, lows: lowsPart, highs: highsPart, lasts: lastsPart, counts: countsPart, count, sum };
}

// The envelope of samples of a track from one time to another, both inclusive, in about as many steps as given.
export function reduce(track, start, end, steps) {
  const envelope = emptyEnvelope();
  if (!track.length || !(end >= start)) return envelope;
  const from = track.indexOf(start);
  const to = track.indexOf(end + 1);
  if (to - from <= steps * SAMPLES_PER_STEP) {
    for (let index = from; index < to; index++) {
      const value = track.values[index];
      addPoint(envelope, track.times[index], value, value, value, 1, Number.isNaN(value) ? 0 : value);
    }
    return envelope;
  }
  const step = (end - start) / steps;
  envelope.step = step;
  // Steps begin at multiples of their length, so that points stay where they are while the plot scrolls.
  for (let index = from; index < to;) {
    const edge = (Math.floor(track.times[index] / step) + 1) * step;
    const next = Math.max(index + 1, Math.min(to, indexBefore(track, index, to, edge)));
    const { low, high, sum } = track.summary(index, next);
    const isNumber = low <= high;
    addPoint(envelope, track.times[index], isNumber ? low : NaN, isNumber ? high : NaN, track.values[next - 1], next - index, sum);
    index = next;
  }
  return envelope;
}

// The first sample at an edge or after it: looked for nearby first, since steps are short.
function indexBefore(track, from, to, edge) {
  let reach = 1;
  while (from + reach < to && track.times[from + reach] < edge) reach *= 2;
  let low = from + (reach >> 1);
  let high = Math.min(to, from + reach);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (track.times[middle] < edge) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Envelopes that follow each other, as one.
export function join(first, second) {
  if (!first.times.length) return second;
  if (!second.times.length) return first;
  const joined = { ...first, step: Math.max(first.step, second.step), sum: first.sum + second.sum, count: first.count + second.count };
  for (const name of ['times', 'lows', 'highs', 'lasts', 'counts', 'sums']) joined[name] = first[name].concat(second[name]);
  return joined;
}

// The distance between two points from which on there is a gap. `interval`: what the configuration says, or 0.
export function gapThreshold(envelope, interval) {
  const { times, step, count } = envelope;
  if (times.length < 3) return interval ? interval * GAP_INTERVALS : Infinity;
  if (step && count / times.length >= DENSE) return step * GAP_STEPS;
  const distances = [];
  const stride = Math.max(1, Math.floor(times.length / 256));
  for (let index = stride; index < times.length; index += stride) distances.push(times[index] - times[index - 1]);
  distances.sort((a, b) => a - b);
  const median = distances[distances.length >> 1];
  return Math.max(median * GAP_INTERVALS, interval * GAP_STEPS, step * GAP_STEPS);
}
