// A viewer in another language, written from the specification alone: `ws` for the WebSocket, LZ4 blocks and protobuf
// decoded here. Arguments: URL, then steps as JSON: [{"afterSamples": n, "subscribe": {"channels": [..], "all": bool,
// "events": bool}}], then how long to wait after each frame, in ms. Prints one JSON document at the close.
import { createRequire } from "node:module";
const WebSocket = createRequire(process.cwd() + "/")("ws");

const [url, stepsText, pauseText] = process.argv.slice(2);
const steps = JSON.parse(stepsText);
const pauseMs = Number(pauseText ?? 0);

function lz4Block(input) {
  const out = [];
  let at = 0;
  const length = (start) => {
    let value = start;
    if (start === 15) {
      let more;
      do {
        more = input[at++];
        value += more;
      } while (more === 255);
    }
    return value;
  };
  while (at < input.length) {
    const token = input[at++];
    const literals = length(token >> 4);
    for (let i = 0; i < literals; i++) out.push(input[at++]);
    if (at >= input.length) break;
    const offset = input[at] | (input[at + 1] << 8);
    at += 2;
    if (offset === 0 || offset > out.length) throw new Error("bad LZ4 offset");
    const matched = length(token & 15) + 4;
    for (let i = 0; i < matched; i++) out.push(out[out.length - offset]);
  }
  return Buffer.from(out);
}

function* fields(buffer) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    let shift = 0n;
    for (;;) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  };
  while (at < buffer.length) {
    const tag = Number(varint());
    const number = tag >> 3;
    if ((tag & 7) === 0) yield [number, varint()];
    else if ((tag & 7) === 1) {
      yield [number, buffer.readBigInt64LE(at)];
      at += 8;
    } else if ((tag & 7) === 2) {
      const size = Number(varint());
      yield [number, buffer.subarray(at, at + size)];
      at += size;
    } else throw new Error(`wire type ${tag & 7}`);
  }
}

function packed(buffer) {
  const values = [];
  let value = 0n;
  let shift = 0n;
  for (const byte of buffer) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      values.push(BigInt.asIntN(64, value));
      value = 0n;
      shift = 0n;
    }
  }
  return values;
}

function timestamped(buffer) {
  const got = { 1: 0n, 2: 0n, 3: 0n, 4: Buffer.alloc(0), 5: Buffer.alloc(0) };
  for (const [number, value] of fields(buffer)) got[number] = value;
  const deltas = packed(got[4]);
  const width = got[5].length / deltas.length;
  let at = got[2];
  return deltas.map((delta, index) => {
    at += delta * got[3];
    return `${got[1]} ${at} ${got[5].subarray(index * width, (index + 1) * width).toString("hex")}`;
  });
}

function request({ channels = [], all = false, events = false }) {
  const encode = (value) => {
    const bytes = [];
    while (value > 127) {
      bytes.push((value & 127) | 128);
      value >>>= 7;
    }
    return [...bytes, value];
  };
  const ids = channels.flatMap(encode);
  const body = [...(events ? [8, 1] : []), ...(all ? [16, 1] : []), ...(ids.length ? [26, ...encode(ids.length), ...ids] : [])];
  return Buffer.from([18, ...encode(body.length), ...body]);
}

const names = { 2: "json", 3: "range", 4: "data", 5: "periodic", 6: "row", 7: "event" };
const seen = { protocol: "", kinds: [], states: [], samples: [], ranges: 0, pongs: 0, code: 0 };
let unsubscribedData = 0;
let subscribed = false;

const socket = new WebSocket(url, ["mat.ocs.rta.stream-lz4"], { perMessageDeflate: false });
const advance = () => {
  while (steps.length && seen.samples.length >= steps[0].afterSamples) {
    socket.send(request(steps.shift().subscribe));
    subscribed = true;
  }
};
socket.on("open", () => {
  seen.protocol = socket.protocol;
  socket.ping();
});
socket.on("pong", () => seen.pongs++);
socket.on("message", (data, isBinary) => {
  if (!isBinary) throw new Error("a text frame");
  const kinds = [];
  for (const [, item] of fields(lz4Block(data))) {
    for (const [number, value] of fields(item)) {
      kinds.push(names[number]);
      if (number === 2) seen.states.push(JSON.parse(value.toString()).state);
      if (number === 3) seen.ranges++;
      if (number === 4) {
        seen.samples.push(...timestamped(value));
        if (!subscribed) unsubscribedData++;
      }
    }
  }
  if (seen.kinds.length < 2) seen.kinds.push(kinds.join("+"));
  advance();
  if (pauseMs) {
    socket.pause();
    setTimeout(() => socket.resume(), pauseMs);
  }
});
socket.on("close", (code) => {
  seen.code = code;
  process.stdout.write(JSON.stringify({ ...seen, unsubscribedData }));
});
socket.on("error", (error) => process.stderr.write(`${error}\n`));
