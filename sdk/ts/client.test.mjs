// Tests of the client without a relay, on the built package: node --test client.test.mjs
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { APIError, Relay, StreamEnded, Verifier } from './dist/index.js'

const read = (file) => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))
const json = (value, status = 200, headers = {}) => new Response(JSON.stringify(value), { status, headers })
const clientOf = (fetch) => new Relay({ baseUrl: 'http://relay.test/', key: 'key', maxTries: 3, fetch })

test('deliveries are verified as the relay signs them', async () => {
  const { now, deliveries } = read('../vectors.json')
  for (const { Name, Secret, Headers, Body, Valid } of deliveries) {
    const verified = (async () => new Verifier(Secret).verify(Headers, Body, now))()
    if (Valid) assert.equal(await verified, 'evt_01J', Name)
    else await assert.rejects(verified, Name)
  }
})

for (const { name, call, answers, headers, tries } of read('../retries.json')) {
  test(`retries: ${name}`, async () => {
    const keys = []
    const relay = clientOf(async (request) => {
      const status = answers[keys.push(request.headers.get('Idempotency-Key')) - 1]
      if (status === 0) throw new TypeError('fetch failed')
      return json({}, status, headers)
    })
    const params = { path: { endpoint_id: 'ep_1' } }
    const made = {
      read: () => relay.GET('/v1/me'),
      send: () => relay.POST('/v1/endpoints/{endpoint_id}/events', { params, body: { type: 'a', data: {} } }),
      change: () => relay.PATCH('/v1/endpoints/{endpoint_id}', { params, body: {} }),
    }[call]()
    if (answers[tries - 1] >= 200 && answers[tries - 1] < 300) await made
    else await assert.rejects(made)
    assert.equal(keys.length, tries)
    assert.equal(new Set(keys).size, 1)
    assert.equal(keys[0] !== null, call === 'send')
  })
}

test('errors have the type, parameter and request id', async () => {
  const error = { type: 'invalid_request', param: 'url', message: 'm', request_id: 'req_1' }
  await assert.rejects(clientOf(async () => json({ error }, 400)).GET('/v1/me'), (thrown) => {
    assert.ok(thrown instanceof APIError)
    const { status, type, param, requestId } = thrown
    assert.deepEqual([status, type, param, requestId], [400, 'invalid_request', 'url', 'req_1'])
    return true
  })
})

test('batches are bounded in events and bytes, and repeated while an event failed for the moment', async () => {
  const batches = []
  const relay = clientOf(async (request) => {
    const text = await request.text()
    assert.ok(text.length <= 5 << 20)
    const { events } = JSON.parse(text)
    batches.push([request.headers.get('Idempotency-Key'), events.length])
    const data = events.map((_, index) => ({ index }))
    if (batches.length === 1) data[5].error = { type: 'unavailable' }
    return json({ data }, 202)
  })
  const large = { type: 'a', data: { text: 'x'.repeat(3 << 20) } }
  const events = [...Array(1001).fill({ type: 'a', data: {} }), large, large, large]
  let next = 0
  for await (const result of relay.sendAll('ep_1', events, { idempotencyKey: 'import' })) {
    assert.deepEqual(result, { index: next++ })
  }
  assert.equal(next, events.length)
  assert.deepEqual(batches, [['import-0', 1000], ['import-0', 1000], ['import-1', 2], ['import-2', 1], ['import-3', 1]])
})

test('a stream goes on after the last item, and ends when it says so', async () => {
  const item = (id, event, data) => `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`
  const answers = ['',
    item(0, 'ready', '{}') + ': a comment\n\n' + item(1, 'event', '{"id":"evt_1"}') + 'id: 2\nevent: event\nda',
    item(1, 'ready', '{}') + item(2, 'gap', '{}') + 'event: end\ndata: {"reason":"shutdown"}\n\n',
    item(2, 'ready', '{}') + 'event: end\ndata: {"reason":"key_revoked"}\n\n']
  const asked = []
  const relay = clientOf(async (request) => {
    asked.push(request.headers.get('Last-Event-ID'))
    return asked.length === 1 ? json({}, 503) : new Response(answers[asked.length - 1])
  })
  const got = []
  await assert.rejects(async () => { for await (const it of relay.stream('ep_1')) got.push(it) }, StreamEnded)
  assert.deepEqual(got, [{ id: '0' }, { id: '1', event: { id: 'evt_1' } }, { id: '2', gap: {} }])
  assert.deepEqual(asked, [null, null, '1', '2'])
})

test('a stream ends with its signal', async () => {
  const stop = new AbortController()
  const relay = clientOf(async (request) => new Response(new ReadableStream({
    start(body) {
      body.enqueue(new TextEncoder().encode('id: 0\nevent: ready\ndata: {}\n\n'))
      request.signal.addEventListener('abort', () => body.error(request.signal.reason))
    },
  })))
  for await (const { id } of relay.stream('ep_1', { signal: stop.signal })) {
    assert.equal(id, '0')
    stop.abort()
  }
})

// A body that does not notice that its signal was aborted, as when Node.js has collected what passes it on.
const deaf = (text = '') => new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode(text)) }))

test('a stream ends with its signal, though its connection does not', async () => {
  const stop = new AbortController()
  const got = []
  const relay = clientOf(async () => deaf('id: 1\nevent: ready\ndata: {}\n\n'))
  for await (const { id } of relay.stream('ep_1', { signal: stop.signal })) {
    got.push(id)
    setImmediate(() => stop.abort())
  }
  assert.deepEqual(got, ['1'])
})

test('a silent stream is connected again, and a silent call is tried again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const pass = setInterval(() => t.mock.timers.tick(1000), 1)
  t.after(() => clearInterval(pass))
  let asked = 0
  const relay = clientOf(async ({ url }) => {
    if (++asked === 1) return deaf('id: 1\nevent: ready\ndata: {}\n\n')
    if (url.endsWith('/stream')) return new Response('event: end\ndata: {"reason":"key_revoked"}\n\n')
    return asked === 3 ? deaf() : json({ scope: 'read' })
  })
  await assert.rejects(async () => { for await (const it of relay.stream('ep_1')) assert.equal(it.id, '1') }, StreamEnded)
  assert.equal((await relay.GET('/v1/me')).scope, 'read')
  assert.equal(asked, 4)
})

test('a key that is not set is said at once', () => {
  assert.throws(() => new Relay({ baseUrl: 'http://relay.test', key: undefined }), /RELAY_API_KEY/)
})
