// Where axes have their ticks and what these say. Pure.

const NS = { us: 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9, d: 86400e9 };
export const DAY_NS = NS.d;
const TICKS_MAX = 200;
// Higher values, of which there are some that stand for none, are beyond the axis: its ends have to be numbers.
const VALUE_MAX = 4e307;
const SHORT_DIGITS = 2;
const FIXED_DIGITS_MAX = 8;
const FIXED_MAX = 1e15;
const TIME_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((number) => number * NS.us),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((number) => number * NS.ms),
  ...[1, 2, 5, 10, 15, 30].map((number) => number * NS.s),
  ...[1, 2, 5, 10, 15, 30].map((number) => number * NS.min),
  ...[1, 2, 3, 6, 12].map((number) => number * NS.h),
  ...[1, 2, 7, 14, 30, 90, 365].map((number) => number * NS.d),
];

// Ticks of a time axis: times in ns from the base, with the clock of the viewer's zone as their text.
export function timeTicks(start, end, count, baseNs) {
  const step = TIME_STEPS.find((candidate) => (end - start) / candidate <= count) ?? TIME_STEPS.at(-1);
  // Steps begin at full seconds, minutes and hours of the clock, and days at midnight.
  const baseRest = Number(baseNs % BigInt(Math.max(step, NS.s)));
  const zone = step >= NS.h ? new Date(Number(baseNs / 1_000_000n)).getTimezoneOffset() * NS.min : 0;
  const first = Math.ceil((start + baseRest - zone) / step) * step - baseRest + zone;
  // By their number: far from the base a step may be too short to be added.
  const last = Math.min(TICKS_MAX - 1, Math.floor((end - first) / step));
  return Array.from({ length: Math.max(0, last + 1) }, (_, index) => first + index * step)
    .map((time) => ({ time, text: clockText(time, isMidnight(time, step, baseNs) ? NS.d : step, baseNs) }));
}

// Among hours and minutes a day is told where it begins.
function isMidnight(time, step, baseNs) {
  return step >= NS.min && clockText(time, NS.s, baseNs) === '00:00:00';
}

export function clockText(time, step, baseNs) {
  const ns = baseNs + BigInt(Math.round(time));
  const date = new Date(Number(ns / 1_000_000n));
  if (Number.isNaN(date.getTime())) return `${ns} ns`;
  const two = (number) => String(number).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  if (step >= NS.d) return day;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (step >= NS.min) return clock;
  const whole = `${clock}:${two(date.getSeconds())}`;
  if (step >= NS.s) return whole;
  const fraction = String(((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n).padStart(9, '0');
  const digits = step >= NS.ms * 100 ? 1 : step >= NS.ms ? 3 : 6;
  return `${whole}.${fraction.slice(0, digits)}`;
}

// A range of values with round ends that holds the given one, and its ticks.
export function valueAxis(low, high, count) {
  if (!(low <= high)) [low, high] = [0, 1];
  [low, high] = [low, high].map((value) => Math.min(VALUE_MAX, Math.max(-VALUE_MAX, value)));
  if (low === high) {
    const half = Math.abs(low) > 0 ? Math.abs(low) * 0.05 : 0.5;
    [low, high] = [low - half, high + half];
  }
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const from = Math.floor(low / step + 1e-9) * step;
  const to = Math.ceil(high / step - 1e-9) * step;
  // How many digits after the point tell a tick from the next one; negative where those before it do.
  const decimals = -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0);
  const ticks = [];
  for (let index = 0; from + index * step <= to + step / 2 && ticks.length < 100; index++) {
    const value = from + index * step;
    ticks.push({ value, text: tickText(value, step, decimals) });
  }
  return { low: from, high: to, ticks };
}

// As a number with a power of ten where that is short, or the value very large or small.
function tickText(value, step, decimals) {
  const size = Math.max(Math.abs(value), step);
  const digits = Math.max(0, decimals);
  if (size < 1e6 && step >= 1e-5) return value.toFixed(digits);
  if (value === 0) return '0';
  const needed = Math.floor(Math.log10(size) + 1e-9) + decimals;
  const isPlain = needed > SHORT_DIGITS && size < FIXED_MAX && digits <= FIXED_DIGITS_MAX;
  return isPlain ? value.toFixed(digits) : value.toExponential(Math.min(20, Math.max(0, needed))).replace(/(\.\d*?)0+e/, '$1e').replace('.e', 'e');
}
