// The official JavaScript A2A client against a server: `a2a.mjs work|denial|failure`. Run by `a2a`.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client';

const [, , phase] = process.argv;
const { WORLDLOG_URL: url, WORLDLOG_TOKEN: token } = process.env;
const COMPLETED = 3;
const USER = 1;

// The card is fetched without a token; the calls bring it.
const withToken = (sent) => (input, init = {}) => {
  const headers = new Headers(init.headers);
  if (sent) headers.set('Authorization', `Bearer ${sent}`);
  return fetch(input, { ...init, headers });
};
const connect = (sent) =>
  new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl: withToken(sent) })] }).createFromUrl(url);
const client = await connect(token);

const request = (skill, data, messageId = randomUUID()) => ({
  tenant: '',
  configuration: undefined,
  metadata: { skill_id: skill },
  message: {
    messageId,
    contextId: '',
    taskId: '',
    role: USER,
    parts: [{ content: { $case: 'data', value: data }, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  },
});
const output = (task) => task.artifacts[0].parts[0].content.value;
const call = async (skill, data, id) => {
  const task = await client.sendMessage(request(skill, data, id));
  assert.equal(task.status.state, COMPLETED, JSON.stringify(task));
  assert.match(task.metadata.world_ref, /^sha256:[0-9a-f]{64}$/);
  return task;
};
const accepted = (task) => {
  assert.equal(task.status.message, undefined, JSON.stringify(task));
  assert.equal(output(task).ok, true);
  return output(task);
};
const refused = (task, reason) => {
  assert.equal(output(task).ok, false, JSON.stringify(task));
  assert.match(output(task).refused, reason);
  assert.match(task.status.message.parts[0].content.value, reason);
};

async function work() {
  const card = await client.getAgentCard();
  const skills = card.skills.map((skill) => skill.id);
  for (const id of ['ailang-edit', 'ailang-read', 'ailang-write']) assert.ok(skills.includes(id), `${skills}`);
  const path = 'check-a2a-js.txt';
  const id = randomUUID();
  const first = await call('ailang-write', { path, content: 'one \u{1f980}\n' }, id);
  assert.equal(accepted(first).ok, true);
  assert.deepEqual(await call('ailang-write', { path, content: 'one \u{1f980}\n' }, id), first);
  assert.equal(accepted(await call('ailang-read', { path })).content, 'one \u{1f980}\n');
  refused(await call('ailang-read', { path, limit: 5 }), /unknown argument "limit"/);
  refused(await call('ailang-edit', { path, old_text: 'absent', new_text: '' }), /old_text not found/);
  const found = await client.getTask({ tenant: '', id: first.id });
  assert.deepEqual(output(found), output(first));
  const listed = await client.listTasks({ tenant: '', contextId: first.contextId, pageToken: '', pageSize: 2, status: 0, statusTimestampAfter: undefined });
  assert.equal(listed.tasks.length, 2);
  assert.ok(listed.totalSize >= 4 && listed.nextPageToken !== '');
  await assert.rejects(client.getTask({ tenant: '', id: randomUUID() }), /task not found/);
  await assert.rejects(client.cancelTask({ tenant: '', id: first.id, metadata: undefined }), /cannot be canceled/);
  await assert.rejects(call('no-such-skill', {}), /not authorized/);
  await assert.rejects((await connect('0'.repeat(64))).sendMessage(request('ailang-read', { path })), /unknown session credential/);
}

async function denial() {
  for (let spent = 0; spent < 2_000; spent += 1) {
    const task = await call('ailang-read', { path: 'check-a2a-js.txt' });
    if (task.metadata['worldlog/receipt'].denial === undefined) continue;
    assert.deepEqual(Object.keys(output(task)), ['world']);
    assert.equal(output(task).world.effects[0].status, 'denied');
    assert.match(task.status.message.parts[0].content.value, /^denied:budget/);
    return;
  }
  assert.fail('no denial within 2000 reads: give the session a smaller budget');
}

async function failure() {
  const failed = await client.sendMessage(request('ailang-write', { path: 'a', content: 'x' })).catch((error) => error);
  assert.match(String(failed.message), /invocation was not committed; send a new message id/);
}

await { work, denial, failure }[phase]();
console.log(`ok a2a javascript ${phase}`);
