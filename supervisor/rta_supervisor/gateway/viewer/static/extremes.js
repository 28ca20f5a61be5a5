// The lowest and the highest of numbers, of which there may be more than a call has arguments. NaN counts as none. Pure.

export function lowest(numbers) {
  let low = Infinity;
  for (const number of numbers) if (number < low) low = number;
  return low;
}

export function highest(numbers) {
  let high = -Infinity;
  for (const number of numbers) if (number > high) high = number;
  return high;
}
