// JSON whose whole numbers stay as they are where a number of JavaScript would round them: times in ns have 19 digits.
// Browsers that don't tell how a value was written, those from before 2025, round them. Pure.

export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const isRounded = typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '');
    return isRounded ? BigInt(context.source) : value;
  });
}

// Indented where people read it.
export function stringify(value, indentation) {
  return JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? JSON.rawJSON(String(part)) : part), indentation);
}
