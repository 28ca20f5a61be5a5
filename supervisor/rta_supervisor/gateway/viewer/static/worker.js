// The worker: fetches, decodes and reduces, so that the page itself only draws.

import { SessionFeed } from './feed.js';

const feeds = new Map();

const HANDLERS = {
  open({ feed, session }) {
    feeds.get(feed)?.stop();
    feeds.set(feed, new SessionFeed(session, (message) => postMessage({ ...message, feed })));
  },
  close({ feed }) {
    feeds.get(feed)?.stop();
    feeds.delete(feed);
  },
  describe({ feed, channels }) {
    feeds.get(feed)?.describe(channels);
  },
  watch({ feed, channels }) {
    feeds.get(feed)?.watch(channels);
  },
  survey({ feed }) {
    feeds.get(feed)?.survey();
  },
  finish({ feed, end }) {
    feeds.get(feed)?.finish(end);
  },
  revive({ feed }) {
    feeds.get(feed)?.live?.revive();
  },
  draw({ feed, request }) {
    const drawn = feeds.get(feed)?.draw(request);
    if (drawn) postMessage({ kind: 'drawn', feed, request, ...drawn }, drawn.tracks.map((track) => track.times.buffer));
  },
};

addEventListener('message', ({ data }) => HANDLERS[data.kind](data));
