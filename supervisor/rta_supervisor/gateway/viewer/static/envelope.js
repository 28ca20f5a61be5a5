// What a plot draws of a channel: points with the lowest and highest value of a step of time, or single samples where
// there are few. A point knows whether there is a gap before it. Pure.

const SAMPLES_PER_STEP = 2;
const GAP_INTERVALS = 8;
const GAP_STEPS = 2.5;
const DENSE = 3;

// What is known of each point. `numbers`: how many of its samples are finite, which are those that its sum is of.
const COLUMNS = ['times', 'lows', 'highs', 'lasts', 'counts', 'sums', 'numbers'];

export function emptyEnvelope() {
  return { times: [], lows: [], highs: [], lasts: [], counts: [], sums: [], numbers: [], count: 0, step: 0 };
}

export function addPoint(envelope, time, low, high, last, count, sum, numbers = count) {
  envelope.times.push(time);
  envelope.lows.push(low);
  envelope.highs.push(high);
  envelope.lasts.push(last);
  envelope.counts.push(count);
  envelope.sums.push(sum);
  envelope.numbers.push(numbers);
  envelope.count += count;
}

// A point that is one sample. One that is not finite is a gap, as in the envelopes of REST.
export function addSample(envelope, time, value) {
  if (Number.isFinite(value)) addPoint(envelope, time, value, value, value, 1, value);
  else addPoint(envelope, time, NaN, NaN, value, 1, 0, 0);
}

// An envelope as the page gets it: columns in one piece of memory, which moves to the page without a copy.
export function packed(envelope) {
  const { length } = envelope.times;
  const memory = new Float64Array(COLUMNS.length * length);
  const part = (index) => memory.subarray(index * length, (index + 1) * length);
  COLUMNS.forEach((name, index) => part(index).set(envelope[name]));
  return { count: envelope.count, ...Object.fromEntries(COLUMNS.map((name, index) => [name, part(index)])) };
}

// The envelope of samples of a track from one time to another, both inclusive, in about as many steps as given.
export function reduce(track, start, end, steps) {
  const envelope = emptyEnvelope();
  if (!track.length || !(end >= start)) return envelope;
  const from = track.indexOf(start);
  const to = track.indexOf(end + 1);
  if (to - from <= steps * SAMPLES_PER_STEP) {
    for (let index = from; index < to; index++) addSample(envelope, track.times[index], track.values[index]);
    return envelope;
  }
  const step = (end - start) / steps;
  envelope.step = step;
  // Steps begin at multiples of their length, so that points stay where they are while the plot scrolls.
  for (let index = from; index < to;) {
    const edge = (Math.floor(track.times[index] / step) + 1) * step;
    const next = Math.max(index + 1, Math.min(to, indexBefore(track, index, to, edge)));
    const { low, high, sum, numbers } = track.summary(index, next);
    addPoint(envelope, track.times[index], numbers ? low : NaN, numbers ? high : NaN, track.values[next - 1], next - index, sum, numbers);
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
  const joined = { step: Math.max(first.step, second.step), count: first.count + second.count };
  for (const name of COLUMNS) joined[name] = first[name].concat(second[name]);
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
