// REST of the gateway: where things are, and its refusals as sentences.

import * as exactJson from './exact_json.js';

export class ApiProblem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const TEXTS = {
  401: 'This needs a token: open the address with ?token=… once.',
  403: 'This is not permitted.',
  404: 'There is no such session, or it may not be seen with this token.',
  429: 'Too many requests. Trying again.',
  503: 'The gateway is busy, or Redis does not answer. Trying again.',
};

const ANSWER_MS = 20_000;

export const root = new URL('rta/v2/', document.baseURI);

export function sessionUrl(identity) {
  return new URL(`sessions/${encodeURIComponent(identity)}`, root);
}

export function liveUrl(identity) {
  const url = new URL(`sessions/${encodeURIComponent(identity)}/stream`, root);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}

async function ask(url, options = {}) {
  let response;
  try {
    response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS), ...options });
  } catch {
    throw new ApiProblem(0, 'The gateway does not answer. Trying again.');
  }
  if (!response.ok) throw new ApiProblem(response.status, TEXTS[response.status] ?? `The gateway answered with ${response.status}.`);
  return response;
}

export async function getJson(url, options) {
  return (await ask(url, options)).json();
}

async function getExactJson(url, options) {
  return exactJson.parse(await (await ask(url, options)).text());
}

// What is saved may be long: it takes the time that it takes.
export async function getBlob(url, accept) {
  return (await ask(url, { headers: { Accept: accept }, signal: null })).blob();
}

// One page of sessions. `query` is a condition of the query dialect, or null for all.
export async function findSessions(query, pageIndex, pageSize) {
  const form = new URLSearchParams({ pageIndex, pageSize });
  if (query) form.set('query', JSON.stringify(query));
  const answer = await getJson(new URL('sessions', root), { method: 'POST', body: form });
  return answer.sessions;
}

// `answerMs`: how long to wait for it.
export const getSession = (identity, answerMs = ANSWER_MS) => getExactJson(sessionUrl(identity), { signal: AbortSignal.timeout(answerMs) });

// Whether there are samples or events of a session from one time to another, in ns, as BigInt.
export async function hasData(identity, start, end) {
  const range = new URLSearchParams({ start, end });
  const paths = [`data?${range}&resolution=1&format=csv`, `data/events?${range}&format=csv`];
  const texts = await Promise.all(paths.map(async (path) => (await ask(new URL(`${sessionUrl(identity)}/${path}`))).text()));
  return texts.some((text) => text.trim().includes('\n'));
}

export const getConfig = (identifier) => getJson(new URL(`configs/${encodeURIComponent(identifier)}`, root));
