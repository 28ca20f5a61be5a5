// Where axes have their ticks and what these say. Pure.

const NS = { us: 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9, d: 86400e9 };
export const DAY_NS = NS.d;
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
  const ticks = [];
  for (let time = first; time <= end; time += step) ticks.push({ time, text: clockText(time, step, baseNs) });
  return ticks;
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
  if (low === high) {
    const half = Math.abs(low) > 0 ? Math.abs(low) * 0.05 : 0.5;
    [low, high] = [low - half, high + half];
  }
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const from = Math.floor(low / step + 1e-9) * step;
  const to = Math.ceil(high / step - 1e-9) * step;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0));
  const ticks = [];
  for (let index = 0; from + index * step <= to + step / 2 && ticks.length < 100; index++) {
    const value = from + index * step;
    ticks.push({ value, text: tickText(value, step, digits) });
  }
  return { low: from, high: to, ticks };
}

function tickText(value, step, digits) {
  const size = Math.max(Math.abs(value), step);
  if (size >= 1e6 || step < 1e-5) return value === 0 ? '0' : value.toExponential(2).replace(/\.?0+e/, 'e');
  return value.toFixed(Math.min(digits, 8));
}
