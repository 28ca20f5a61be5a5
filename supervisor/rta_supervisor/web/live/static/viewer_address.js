// Where the viewer is for the browser that shows this page. Pure.

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/;

// `viewer`: what the supervisor found; `hostname`: the one that this page was asked for by. Gives the address, or null,
// and what there is to say about it.
export function viewerAddress({ url, scheme, port, isLocal }, hostname) {
  if (url) return { base: url, note: '' };
  if (!port) return { base: null, note: 'No gateway runs on this host. Start one with: rta-supervisor gateway, or set http.viewer_url.' };
  if (isLocal && !LOOPBACK.test(hostname)) return { base: null, note: 'The gateway on that host can be reached from there only: set gateway.host or http.viewer_url.' };
  const host = hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname;
  return { base: `${scheme}://${host}:${port}/`, note: '' };
}
