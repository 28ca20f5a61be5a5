// Protobuf's wire format: a reader over bytes, and a writer for the few requests that a viewer makes. Pure.

const TWO_32 = 4294967296;
const text = new TextDecoder();

export class Reader {
  constructor(bytes, start = 0, end = bytes.length) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = start;
    this.end = end;
    this.field = 0;
    this.wire = 0;
  }

  // Goes to the next field. False at the end of the message.
  next() {
    if (this.at >= this.end) return false;
    const tag = this.varint();
    this.field = Math.floor(tag / 8);
    this.wire = tag % 8;
    return true;
  }

  varint() {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= this.end) throw new Error('a message ends in a number');
      const byte = this.bytes[this.at++];
      const bits = byte & 127;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high |= bits >> 4;
      } else if (shift < 63) high |= bits << (shift - 32);
      else high |= (bits & 1) << 31;
      if (byte < 128) return high === 0 ? low >>> 0 : (high | 0) * TWO_32 + (low >>> 0);
    }
    throw new Error('a number has more than ten bytes');
  }

  zigzag() {
    const number = this.varint();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }

  // A fixed 64-bit time, as its distance from a base: exact for 104 days.
  time(base) {
    if (this.at + 8 > this.end) throw new Error('a message ends in a time');
    const low = this.view.getUint32(this.at, true);
    const high = this.view.getInt32(this.at + 4, true);
    this.at += 8;
    return (high - base.high) * TWO_32 + (low - base.low);
  }

  // A fixed 64-bit time, exact.
  nanoseconds() {
    if (this.at + 8 > this.end) throw new Error('a message ends in a time');
    const number = this.view.getBigInt64(this.at, true);
    this.at += 8;
    return number;
  }

  double() {
    if (this.at + 8 > this.end) throw new Error('a message ends in a number');
    const number = this.view.getFloat64(this.at, true);
    this.at += 8;
    return number;
  }

  // Start and end of a field with a length, which is passed over.
  span() {
    const length = this.varint();
    const start = this.at;
    if (start + length > this.end) throw new Error('a field is longer than its message');
    this.at = start + length;
    return [start, this.at];
  }

  message() {
    const [start, end] = this.span();
    return new Reader(this.bytes, start, end);
  }

  data() {
    const [start, end] = this.span();
    return this.bytes.subarray(start, end);
  }

  string() {
    return text.decode(this.data());
  }

  skip() {
    if (this.wire === 0) this.varint();
    else if (this.wire === 1) this.at += 8;
    else if (this.wire === 2) this.span();
    else if (this.wire === 5) this.at += 4;
    else throw new Error(`a field of wire type ${this.wire}`);
    if (this.at > this.end) throw new Error('a field is longer than its message');
  }
}

// Numbers of a repeated field, packed or one by one.
export function numbers(reader, into) {
  if (reader.wire !== 2) {
    into.push(reader.varint());
    return;
  }
  const packed = reader.message();
  while (packed.at < packed.end) into.push(packed.varint());
}

// The base of times: nanoseconds since 1970 as two halves.
export function baseOf(nanoseconds) {
  return { high: Number(nanoseconds >> 32n), low: Number(nanoseconds & 0xffffffffn), nanoseconds };
}

function pushVarint(bytes, number) {
  while (number > 127) {
    bytes.push((number % 128) | 128);
    number = Math.floor(number / 128);
  }
  bytes.push(number);
}

// A StreamRequest that subscribes to events and channels.
export function subscription({ events = false, channels = [] }) {
  const body = [];
  if (events) body.push(0x08, 1);
  if (channels.length) {
    const ids = [];
    for (const channel of channels) pushVarint(ids, channel);
    body.push(0x1a);
    pushVarint(body, ids.length);
    for (const byte of ids) body.push(byte);
  }
  const request = [0x12];
  pushVarint(request, body.length);
  return new Uint8Array(request.concat(body));
}
