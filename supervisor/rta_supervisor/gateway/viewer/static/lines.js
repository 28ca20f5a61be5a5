// What the worker drew of a channel as a line: values in the channel's unit. Pure.

import * as format from './format.js';

const AS_IT_IS = (value) => value;
const DIGITS = 6;

// Digits that can be read while they change; files that are saved have all of them.
const shortValue = (value) => format.value(Number.isInteger(value) ? value : Number(value.toPrecision(DIGITS)));

// `channel`: of the configuration; `track`: as the worker sends it.
export function lineOf(channel, track, { colour, pane, session, isOther, offset }) {
  const convert = channel.convert && !channel.convert.isText ? channel.convert : null;
  const [lows, highs] = convert ? converted(track, convert) : [track.lows, track.highs];
  return {
    channel: channel.id, name: channel.name, unit: channel.unit, description: channel.description, colour, pane, session, isOther,
    times: offset ? track.times.map((time) => time + offset) : track.times,
    lows, highs, lasts: convert ? track.lasts.map(convert) : track.lasts,
    count: track.count, mean: meanOf(track, convert ?? AS_IT_IS), gap: track.gap,
    latest: track.latest == null ? null : (convert ?? AS_IT_IS)(track.latest),
    range: channel.min == null ? null : [channel.min, channel.max],
    text: channel.convert?.isText ? channel.convert : null, format: channel.format ?? shortValue,
    isMany: (index) => track.counts[index] > 1,
  };
}

// A conversion that falls turns lowest and highest round.
function converted({ lows, highs }, convert) {
  const [first, second] = [lows.map(convert), highs.map(convert)];
  return [first.map((value, index) => Math.min(value, second[index])), first.map((value, index) => Math.max(value, second[index]))];
}

// The mean of all samples. Of a conversion that is no line, that of the means of points: exact where these are samples.
function meanOf({ sums, numbers }, convert) {
  let [sum, count] = [0, 0];
  for (let index = 0; index < sums.length; index++) {
    if (!numbers[index]) continue;
    sum += convert(sums[index] / numbers[index]) * numbers[index];
    count += numbers[index];
  }
  return count ? sum / count : NaN;
}
