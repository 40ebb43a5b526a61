// One official TypeScript client against a server: `client.mjs sdk|client|auto work|denial|failure`. Run by `check`.
import assert from 'node:assert/strict';

const [, , flavour, phase] = process.argv;
const { WORLDLOG_URL: url, WORLDLOG_TOKEN: token } = process.env;

async function connect() {
  const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
  if (flavour === 'sdk') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client({ name: 'check', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  // `auto` speaks the newest revision; without it the client opens with the handshake of the older ones.
  const newest = flavour === 'auto' ? { versionNegotiation: { mode: 'auto' } } : {};
  const client = new Client({ name: 'check', version: '1' }, newest);
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  return client;
}

const client = await connect();
const call = async (name, args) => {
  const result = await client.callTool({ name, arguments: args });
  // Both forms are the same committed object.
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  assert.match(result._meta['worldlog/receipt'].output, /^sha256:[0-9a-f]{64}$/);
  return result;
};
const accepted = (result) => {
  assert.equal(result.isError ?? false, false, JSON.stringify(result));
  assert.equal(result.content.length, 1);
  assert.equal(result.structuredContent.ok, true);
  return result.structuredContent;
};
const refused = (result, reason) => {
  assert.equal(result.isError, true, JSON.stringify(result));
  assert.equal(result.structuredContent.ok, false);
  assert.match(result.structuredContent.refused, reason);
  assert.match(result.content[1].text, reason);
};

async function work() {
  const names = (await client.listTools()).tools.map((tool) => tool.name);
  for (const name of ['ailang-edit', 'ailang-read', 'ailang-write']) assert.ok(names.includes(name), `${names}`);
  const path = `check-${flavour}.txt`;
  accepted(await call('ailang-write', { path, content: 'one \u{1f980}\n' }));
  assert.equal(accepted(await call('ailang-read', { path })).content, 'one \u{1f980}\n');
  accepted(await call('ailang-edit', { path, old_text: 'one', new_text: 'two' }));
  assert.equal(accepted(await call('ailang-read', { path })).content, 'two \u{1f980}\n');
  refused(await call('ailang-read', { path, limit: 5 }), /unknown argument "limit"/);
  refused(await call('ailang-edit', { path, old_text: 'absent', new_text: '' }), /old_text not found/);
  // No client of any tool may keep a refusal from its agent, whatever schema the tool publishes.
  for (const name of names) refused(await call(name, { nonsense: true }), /unknown argument "nonsense"/);
  await assert.rejects(client.callTool({ name: 'no-such-tool', arguments: {} }), /unknown tool "no-such-tool"/);
}

async function denial() {
  for (let spent = 0; spent < 2_000; spent += 1) {
    const result = await call('ailang-read', { path: 'check-sdk.txt' });
    if (result.isError !== true) continue;
    assert.deepEqual(Object.keys(result.structuredContent), ['world']);
    assert.equal(result.structuredContent.world.effects[0].status, 'denied');
    assert.match(result.content[1].text, /^denied:budget/);
    assert.equal(result._meta['worldlog/receipt'].denial, 'denied:budget');
    return;
  }
  assert.fail('no denial within 2000 reads: give the session a smaller budget');
}

async function failure() {
  const call = client.callTool({ name: 'ailang-write', arguments: { path: 'never.txt', content: 'x' } });
  await assert.rejects(call, (error) => {
    assert.equal(error.code, -32603, String(error));
    assert.match(error.message, /host callback failed/);
    assert.equal(error.data.phase, 'intent');
    assert.equal(error.data.safe_to_repeat, true);
    return true;
  });
}

await { work, denial, failure }[phase]();
await client.close();
console.log(`ok ${flavour} ${phase}`);
