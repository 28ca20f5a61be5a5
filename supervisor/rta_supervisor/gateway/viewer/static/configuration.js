// What a configuration says about channels: names, units, groups, types, ranges, conversions. Pure.

// Channels of 64-bit integers stand beside those that other viewers know, in words of their own.
const WIDE_TYPES = { int64: 's64', uint64: 'u64' };

// A channel that no configuration describes.
export function unnamedChannel(id) {
  return { id, name: `channel ${id}`, unit: '', description: '', group: [], type: 'f64', kind: 'timestamped', interval: 0, min: null, max: null, convert: null, format: null, isNamed: false };
}

// Channels and events by id, out of configurations with their offsets.
export class Configuration {
  constructor() {
    this.channels = new Map();
    this.events = new Map();
    this.isKnown = false;
  }

  add(document, offset = 0) {
    this.isKnown = true;
    for (const app of Object.values(document)) {
      if (!app || typeof app !== 'object') continue;
      const groups = new Map();
      walkGroups(app.tree ?? {}, [], groups);
      const conversions = new Map((app.conversions ?? []).map((conversion) => [conversion.name, conversion]));
      const parameters = new Map();
      for (const parameter of app.parameters ?? []) for (const id of parameter.channels ?? []) parameters.set(id, parameter);
      for (const channel of app.channels ?? []) this.addChannel(channel, parameters.get(channel.id), groups, conversions, offset);
      for (const channel of app.rtaSupervisor?.channels ?? []) if (channel.type in WIDE_TYPES) this.addWideChannel(channel, offset);
      for (const event of app.events ?? []) this.events.set(Number(event.id ?? event.code), event);
    }
  }

  addChannel(channel, parameter, groups, conversions, offset) {
    const conversion = conversions.get(parameter?.conv);
    const id = channel.id + offset;
    const hasRange = parameter && (parameter.min || parameter.max);
    this.channels.set(id, {
      id,
      // The name of a parameter is a C identifier; the channel has the name that people gave it.
      name: channel.name ?? parameter?.name ?? `channel ${id}`,
      unit: parameter?.unit ?? conversion?.unit ?? '',
      description: parameter?.desc ?? '',
      group: groups.get(parameter?.id) ?? [],
      type: channel.type ?? 'f64',
      kind: channel.source ?? 'row',
      interval: channel.interval ?? 0,
      min: hasRange ? parameter.min ?? 0 : null,
      max: hasRange ? parameter.max ?? 0 : null,
      convert: converter(conversion),
      format: formatter(parameter?.format || conversion?.format),
      isNamed: true,
    });
  }

  addWideChannel({ id: ownId, name, unit = '', description = '', type, kind = 'timestamped', interval_ns: interval = 0, min = null, max = null, group = '', conversion = null }, offset) {
    const id = ownId + offset;
    const path = group.split('/').filter(Boolean);
    this.channels.set(id, { id, name, unit, description, group: path, type: WIDE_TYPES[type], kind, interval, min, max: min === null ? null : max, convert: converter(ownConversion(conversion)), format: null, isNamed: true });
  }

  channel(id) {
    return this.channels.get(id) ?? unnamedChannel(id);
  }

  eventText(event) {
    const definition = this.events.get(event.id);
    return event.text || definition?.desc || `event ${event.id}`;
  }
}

function walkGroups(node, path, groups) {
  for (const id of node.params ?? []) groups.set(id, path);
  for (const group of node.groups ?? []) walkGroups(group, [...path, group.desc || group.id || ''], groups);
}

// A function from a raw value to a value in the unit or a text; null where the value stays as it is.
function converter(conversion) {
  if (!conversion) return null;
  if (conversion.rational?.coeffs?.length === 6) {
    const [a, b, c, d, e, f] = conversion.rational.coeffs;
    if (a === 0 && b === 1 && c === 0 && d === 0 && e === 0 && f === 1) return null;
    return (raw) => (a * raw * raw + b * raw + c) / (d * raw * raw + e * raw + f);
  }
  if (conversion.table?.raw?.length) return (raw) => lookUp(conversion.table, raw);
  if (conversion.text?.keys) {
    const texts = new Map(conversion.text.keys.map((key, index) => [Number(key), conversion.text.values[index]]));
    const convert = (raw) => (texts.get(raw) ?? conversion.text.default) || String(raw);
    convert.isText = true;
    return convert;
  }
  return null;
}

// A conversion in the words of files, as channels of 64-bit integers have it, in those of configurations.
function ownConversion(conversion) {
  const { rational, table, interpolated = false, text, default: rest = '' } = conversion ?? {};
  if (rational) return { rational: { coeffs: rational } };
  if (table) return { table: { raw: table.map(([raw]) => raw), calibrated: table.map(([, value]) => value), interpolated } };
  return text ? { text: { keys: Object.keys(text), values: Object.values(text), default: rest } } : null;
}

// A number as a format of C says it; null where there is none for numbers.
function formatter(format) {
  const parts = /^%[-+ 0#]*\d*(?:\.(\d{1,2}))?l*([feg])$/i.exec(format ?? '');
  if (!parts) return null;
  const digits = Math.min(20, Number(parts[1] ?? 6));
  if (parts[2].toLowerCase() === 'e') return (value) => value.toExponential(digits);
  if (parts[2].toLowerCase() === 'g') return (value) => String(Number(value.toPrecision(Math.max(1, digits))));
  return (value) => value.toFixed(digits);
}

function lookUp({ raw: keys, calibrated, interpolated }, raw) {
  if (Number.isNaN(raw)) return NaN;
  let index = 0;
  while (index < keys.length - 1 && keys[index + 1] <= raw) index++;
  const isLast = index >= keys.length - 1;
  if (raw <= keys[0] || isLast || !interpolated) return calibrated[raw <= keys[0] ? 0 : index];
  const share = (raw - keys[index]) / (keys[index + 1] - keys[index]);
  return calibrated[index] + share * (calibrated[index + 1] - calibrated[index]);
}
