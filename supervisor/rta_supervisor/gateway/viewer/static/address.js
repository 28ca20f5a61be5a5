// The view as the fragment of the address, and back: session, panes with channels, range, the other session. Pure.

const SPAN_S_MAX = 1e9;

// An address without a session is the list.
export function parse(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const identity = fields.get('session');
  if (!identity) return null;
  return {
    identity,
    panes: parsePanes(fields.get('panes')),
    spanS: positive(fields.get('span')),
    start: nanoseconds(fields.get('from')),
    end: nanoseconds(fields.get('to')),
    other: fields.get('other') || null,
    alignment: fields.get('align') === 'time' ? 'time' : 'start',
  };
}

export function format(view) {
  const fields = new URLSearchParams({ session: view.identity });
  if (view.panes?.length) fields.set('panes', view.panes.map((pane) => pane.join('.')).join('-'));
  if (view.start != null && view.end != null) {
    fields.set('from', view.start);
    fields.set('to', view.end);
  } else if (view.spanS) fields.set('span', view.spanS);
  if (view.other) {
    fields.set('other', view.other);
    fields.set('align', view.alignment);
  }
  return `#${fields}`;
}

function parsePanes(text) {
  if (!text) return [];
  return text.split('-').map((pane) => pane.split('.').filter((id) => /^\d{1,10}$/.test(id)).map(Number));
}

function positive(text) {
  const number = Number(text);
  return text && number > 0 && number <= SPAN_S_MAX ? number : null;
}

// Nanoseconds since 1970, as text: they have more digits than a number holds.
function nanoseconds(text) {
  return text && /^-?\d{1,19}$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text) ? text : null;
}
