// LZ4 blocks, raw: no frame, no size before them. Pure.

export const BLOCK_BYTES_MAX = 1024 * 1024;

let scratch = new Uint8Array(256 * 1024);

function grow(length) {
  if (length > BLOCK_BYTES_MAX) throw new Error(`a block of more than ${BLOCK_BYTES_MAX} bytes`);
  const larger = new Uint8Array(Math.min(BLOCK_BYTES_MAX, Math.max(length, scratch.length * 2)));
  larger.set(scratch);
  scratch = larger;
}

// The bytes of a block. They are a view of memory that the next call uses again.
export function decompress(block) {
  let read = 0;
  let written = 0;
  const length = block.length;
  while (read < length) {
    const token = block[read++];
    let literals = token >> 4;
    if (literals === 15) {
      let byte;
      do {
        byte = block[read++];
        if (byte === undefined) throw new Error('an LZ4 block ends in a length');
        literals += byte;
      } while (byte === 255);
    }
    if (read + literals > length) throw new Error('an LZ4 block ends in its literals');
    if (written + literals > scratch.length) grow(written + literals);
    scratch.set(block.subarray(read, read + literals), written);
    read += literals;
    written += literals;
    if (read === length) return scratch.subarray(0, written);
    if (read + 2 > length) throw new Error('an LZ4 block ends in an offset');
    const offset = block[read] | (block[read + 1] << 8);
    read += 2;
    if (offset === 0 || offset > written) throw new Error('an LZ4 block refers to bytes before it');
    let match = (token & 15) + 4;
    if (match === 19) {
      let byte;
      do {
        byte = block[read++];
        if (byte === undefined) throw new Error('an LZ4 block ends in a length');
        match += byte;
      } while (byte === 255);
    }
    if (written + match > scratch.length) grow(written + match);
    if (offset >= match) scratch.copyWithin(written, written - offset, written - offset + match);
    else for (let end = written + match, at = written; at < end; at++) scratch[at] = scratch[at - offset];
    written += match;
  }
  throw new Error('an LZ4 block has no end');
}
