// The messages of a burst as columns of samples, events, Session JSON and time range. Pure. Times are distances from a base in ns.

import { numbers, Reader } from './protobuf.js';

// How samples of a type are read: their width in bytes, and the call of DataView. Numbers of 64 bits become doubles.
const READERS = {
  u8: [1, 'getUint8'], s8: [1, 'getInt8'], u16: [2, 'getUint16'], s16: [2, 'getInt16'],
  u32: [4, 'getUint32'], s32: [4, 'getInt32'], f32: [4, 'getFloat32'], f64: [8, 'getFloat64'],
  u64: [8, 'getBigUint64'], s64: [8, 'getBigInt64'],
};

export const TYPES = Object.keys(READERS);

function sampleReader(type) {
  return READERS[type] ?? READERS.f64;
}

// Values of a buffer in which each sample has the width of its type.
function values(buffer, type) {
  const [width, call] = sampleReader(type);
  const count = Math.floor(buffer.length / width);
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const column = new Float64Array(count);
  for (let index = 0; index < count; index++) column[index] = Number(view[call](index * width, true));
  return column;
}

function timestamped(reader, context) {
  let channel = 0;
  let start = 0;
  let scale = 0;
  let buffer = null;
  const deltas = [];
  while (reader.next()) {
    if (reader.field === 1) channel = reader.varint();
    else if (reader.field === 2) start = reader.time(context.base);
    else if (reader.field === 3) scale = reader.varint();
    else if (reader.field === 4) numbers(reader, deltas);
    else if (reader.field === 5) buffer = reader.data();
    else reader.skip();
  }
  if (!buffer || !context.isWanted(channel)) return null;
  const column = values(buffer, context.typeOf(channel));
  const times = new Float64Array(column.length);
  let time = start;
  for (let index = 0; index < times.length; index++) {
    time += (deltas[index] ?? 0) * scale;
    times[index] = time;
  }
  return { channel, times, values: column };
}

function periodic(reader, context) {
  let channel = 0;
  let start = 0;
  let interval = 0;
  let buffer = null;
  while (reader.next()) {
    if (reader.field === 1) channel = reader.varint();
    else if (reader.field === 2) start = reader.time(context.base);
    else if (reader.field === 3) interval = reader.varint();
    else if (reader.field === 5) buffer = reader.data();
    else reader.skip();
  }
  if (!buffer || !context.isWanted(channel)) return null;
  const column = values(buffer, context.typeOf(channel));
  return { channel, times: column.map((_, index) => start + index * interval), values: column };
}

// A row holds one sample of each of its channels. Rows of a burst are gathered by channel.
function row(reader, context, rows) {
  const channels = [];
  let time = 0;
  let buffer = null;
  while (reader.next()) {
    if (reader.field === 1) numbers(reader, channels);
    else if (reader.field === 2) time = reader.time(context.base);
    else if (reader.field === 3) buffer = reader.data();
    else reader.skip();
  }
  if (!buffer) return;
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  let at = 0;
  for (const channel of channels) {
    const [width, call] = sampleReader(context.typeOf(channel));
    if (at + width > buffer.length) return;
    if (context.isWanted(channel)) {
      let column = rows.get(channel);
      if (!column) rows.set(channel, (column = { times: [], values: [] }));
      column.times.push(time);
      column.values.push(Number(view[call](at, true)));
    }
    at += width;
  }
}

function event(reader, context) {
  const decoded = { id: 0, app: '', time: 0, text: '', raw: [] };
  while (reader.next()) {
    if (reader.field === 1) decoded.id = reader.varint() | 0;
    else if (reader.field === 2) decoded.app = reader.string();
    else if (reader.field === 3) decoded.time = reader.time(context.base);
    else if (reader.field === 4) decoded.text = reader.string();
    else if (reader.field === 5) {
      if (reader.wire === 1) decoded.raw.push(reader.double());
      else for (const packed = reader.message(); packed.at < packed.end;) decoded.raw.push(packed.double());
    } else reader.skip();
  }
  return decoded;
}

function gathered(rows) {
  return [...rows].map(([channel, column]) => ({
    channel, times: Float64Array.from(column.times), values: Float64Array.from(column.values),
  }));
}

// What a burst holds: Session JSON, time range, samples by message, events. `context` has the base of times, the type
// of a channel's samples, and which channels are wanted.
export function decodeBurst(bytes, context) {
  const burst = { json: null, range: null, samples: [], events: [] };
  const rows = new Map();
  const messages = new Reader(bytes);
  while (messages.next()) {
    if (messages.field !== 1) {
      messages.skip();
      continue;
    }
    const data = messages.message();
    while (data.next()) {
      if (data.field === 2) burst.json = data.string();
      else if (data.field === 3) burst.range = timeRange(data.message());
      else if (data.field === 4) push(burst.samples, timestamped(data.message(), context));
      else if (data.field === 5) push(burst.samples, periodic(data.message(), context));
      else if (data.field === 6) row(data.message(), context, rows);
      else if (data.field === 7) burst.events.push(event(data.message(), context));
      else data.skip();
    }
  }
  burst.samples.push(...gathered(rows));
  return burst;
}

function push(samples, column) {
  if (column && column.times.length) samples.push(column);
}

function timeRange(reader) {
  const range = { start: 0n, end: 0n };
  while (reader.next()) {
    if (reader.field === 1) range.start = reader.nanoseconds();
    else if (reader.field === 2) range.end = reader.nanoseconds();
    else reader.skip();
  }
  return range;
}
