// What a test suite that cannot send a token talks to: `bearer.mjs PORT-FILE URL`, with WORLDLOG_TOKEN. Run by `conformance`.
//
// Each request goes on to URL's host with the token added. Host and Origin stay as they were sent, because the suite tests
// them, but for this program's own port, which becomes the server's. Writes its port to PORT-FILE once it listens.
import { renameSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';

const [, , portFile, url] = process.argv;
const target = new URL(url);
const pairs = (raw) => Array.from({ length: raw.length / 2 }, (_, index) => [raw[2 * index], raw[2 * index + 1]]);
const hop = (name) => /^(connection|keep-alive)$/i.test(name);

const server = createServer((incoming, outgoing) => {
  const own = `:${server.address().port}`;
  const headers = [];
  for (const [name, value] of pairs(incoming.rawHeaders)) {
    if (hop(name)) continue;
    const named = /^(host|origin)$/i.test(name) && value.endsWith(own);
    headers.push(name, named ? value.slice(0, -own.length) + `:${target.port}` : value);
  }
  headers.push('Authorization', `Bearer ${process.env.WORLDLOG_TOKEN}`);
  const { hostname: host, port } = target;
  // No header of Node's own comes between: a request has exactly one Host.
  const options = { host, port, method: incoming.method, path: incoming.url, headers, setHost: false, agent: false };
  const onward = request(options, (answer) => {
    outgoing.writeHead(answer.statusCode, pairs(answer.rawHeaders).filter(([name]) => !hop(name)).flat());
    // An event stream is read as it comes.
    outgoing.flushHeaders();
    answer.pipe(outgoing);
  });
  onward.on('error', () => outgoing.destroy());
  // A client that leaves is seen to leave.
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
});
server.listen(0, '127.0.0.1', () => {
  writeFileSync(`${portFile}.new`, String(server.address().port));
  renameSync(`${portFile}.new`, portFile);
});
