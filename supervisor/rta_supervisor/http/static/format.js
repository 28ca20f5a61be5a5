// Numbers, sizes and times as text for people. Pure.

const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

export function count(number) {
  if (number == null || Number.isNaN(number)) return '–';
  for (const [factor, prefix] of PREFIXES) {
    if (Math.abs(number) >= factor) return `${significant(number / factor)} ${prefix}`;
  }
  return significant(number);
}

function significant(number) {
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1000) return String(number);
  return number.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace(/\.?0+$/, (zeros) => (size >= 100 ? zeros : ''));
}

export function bytes(number) {
  if (number == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let power = 0;
  while (number >= 1024 && power < units.length - 1) {
    number /= 1024;
    power += 1;
  }
  return `${power === 0 ? number : number.toFixed(number >= 100 ? 0 : 1)} ${units[power]}`;
}

export function duration(ms) {
  if (ms == null) return '–';
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// A duration for tables: one number with at most three digits.
export function age(ms) {
  if (ms == null) return '–';
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} m`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

export function moment(ns) {
  if (ns == null) return '–';
  const ms = Number(BigInt(ns) / 1000000n);
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ns} ns` : date.toISOString().replace('T', ' ').replace('Z', ' UTC');
}

export function clock(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? iso : date.toTimeString().slice(0, 8);
}

export function value(number) {
  if (number == null || !Number.isFinite(number)) return '–';
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return number.toExponential(3);
  return String(Number(number.toPrecision(7)));
}

export function clipped(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
