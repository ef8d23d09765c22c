// Runs the forwarder against a service of the tests' own and a local server, both over HTTP.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { test as nodeTest } from 'node:test'
import { fileURLToPath } from 'node:url'
import { deflateSync } from 'node:zlib'
import { readBody, startServer } from '../shared/server.mjs'
import { copyHeaders, main, messages } from './relay-forward.mjs'
import { Service, endpoint, key, reply } from './service.mjs'

const program = fileURLToPath(new URL('relay-forward.mjs', import.meta.url))
const isOld = parseInt(process.versions.node) < 20
const test = (name, f) => nodeTest(name, { skip: isOld && 'needs Node.js 20', timeout: 90_000 }, f)
const quick = { firstPause: 1, longestPause: 5, poll: 1, silence: 20_000, ready: 20_000 }

// until waits for a condition; the deadline is for a test that hangs.
async function until(condition) {
  const last = Date.now() + 60_000
  while (!condition()) {
    if (Date.now() > last) throw new Error(`waited for ${condition}`)
    await new Promise((resolve) => { setTimeout(resolve, 2) })
  }
}

// startForwarder runs the tool in this process; it returns { service, got, lines, out, err, run, stop }.
async function startForwarder(t, { times = {}, env = {}, local, args, service = new Service(), lookup } = {}) {
  if (!service.server) await service.start()
  const got = []
  const server = await startServer(async (request, response) => {
    const body = await readBody(request)
    got.push({ method: request.method, url: request.url, raw: request.rawHeaders, body, id: request.headers['relay-event-id'] })
    if (local) local(request, response, got.length)
    else response.end()
  })
  const controller = new AbortController()
  const out = []
  const err = []
  const run = main(args ?? [endpoint, `${server.url}/hook?a=1`], {
    env: { RELAY_API_KEY: key, RELAY_BASE_URL: service.url, ...env }, stop: controller.signal, lookup,
    out: (line) => out.push(line), err: (line) => err.push(line), times: { ...quick, ...times },
  })
  const stop = () => {
    controller.abort()
    return run
  }
  t.after(async () => {
    await stop()
    await Promise.all([service.kill(), server.stop()])
  })
  const waiting = () => until(() => out.some((line) => line.startsWith('Waiting')))
  return { service, got, out, err, run, stop, waiting, server }
}

const ids = (n, from = 0) => Array.from({ length: n }, (_, i) => `evt_${String(i + from).padStart(6, '0')}`)

test('a copy has the bytes, headers and method of the event, and goes to exactly the given URL', async (t) => {
  const { service, got, waiting } = await startForwarder(t)
  await waiting()
  const body = randomBytes(1 << 20)
  const same = Array.from({ length: 50 }, (_, i) => ['X-Same', `v${i}`])
  const kept = [['Stripe-Signature', 't=1,v1=00'], ...same, ['X-Name', 'Zoë ☃'], ['Cookie', 'a=b'], ['relay-hops', '1']]
  service.accept({ body, path: '/admin?x=1', method: 'PUT', headers: [
    ['Host', 'relay.example'], ['Connection', 'close, X-Hop'], ['X-Hop', '1'], ['Keep-Alive', 'x'], ['TE', 'trailers'],
    ['Trailer', 'x'], ['Transfer-Encoding', 'chunked'], ['Upgrade', 'h2c'], ['Proxy-Authorization', 'x'],
    ['Expect', '100-continue'], ['Content-Length', '3'], ['Relay-Event-Id', 'evt_forged'],
    ['RELAY-Verification', 'verified'], ['relay_event_id', 'evt_forged'], ['Relay.Event.Id', 'evt_forged'], ...kept,
  ] })
  const packed = deflateSync('{"a":1}')
  service.accept({ body: packed, headers: [['Content-Encoding', 'deflate']] })
  service.accept({ body: 'long', truncated: true, headers: [['X-A', '1']] })
  await until(() => got.length === 3)
  assert.equal(got[0].method, 'PUT')
  assert.equal(got[0].url, '/hook?a=1')
  assert.equal(createHash('sha256').update(got[0].body).digest('hex'), createHash('sha256').update(body).digest('hex'))
  const wanted = [['host', new URL(`http://${got[0].raw[1]}`).host], ...kept, ['relay-event-id', 'evt_000000'],
    ['content-length', String(body.length)], ['Connection', 'close']]
  const raw = got[0].raw.map((text) => Buffer.from(text, 'latin1').toString())
  assert.deepEqual(raw, wanted.flat())
  assert.deepEqual(got[1].body, packed)
  assert.equal(got[2].body.toString(), 'long', 'a body that the stream leaves out is read')
})

test('header values that are not UTF-8 are copied byte for byte', async (t) => {
  const { service, got, waiting } = await startForwarder(t)
  await waiting()
  const value = Buffer.from([0x5a, 0x6f, 0xeb, 0x20, 0xff])
  const event = { headers: [['X-A', 'ü'], ['X-Name', 'Zo\ufffd \ufffd']], headers_base64: [null, value.toString('base64')] }
  service.accept(event)
  service.accept({ ...event, body: 'long', truncated: true })
  service.accept({ ...event, headers_base64: undefined }) // a service of an older version
  await until(() => got.length === 3)
  const bytes = got.map(({ raw }) => raw.slice(2, 6).map((text) => Buffer.from(text, 'latin1')))
  const wanted = ['X-A', 'ü', 'X-Name', value].map((x) => Buffer.from(x))
  assert.deepEqual(bytes[0], wanted)
  assert.deepEqual(bytes[1], wanted, 'an event whose body the stream leaves out')
  assert.equal(bytes[2][3].toString(), 'Zo\ufffd \ufffd')
})

test('when it is ended while the local server does not answer, it says what it waits for', async (t) => {
  let answer
  const { service, err, out, run, stop, waiting } = await startForwarder(t, { local: (_, response) => { answer = () => response.end() } })
  await waiting()
  for (const body of ['1', '2']) service.accept({ body })
  await until(() => answer)
  assert.deepEqual(err, [])
  stop()
  assert.deepEqual(err, ['waiting for 1 answer; Ctrl-C again ends at once'])
  answer()
  assert.equal(await run, 0)
  assert.match(out.at(-1), /^Copied 1 event: 1 answered/)
  assert.equal(err.length, 1)
})

test('each event once, in order, though the service is killed half-way', async (t) => {
  const many = 200
  const { service, got, err, waiting } = await startForwarder(t)
  await waiting()
  let restarted
  service.written = (n) => {
    if (n !== many / 2 || restarted) return false
    restarted = service.kill().then(() => service.start())
    return true
  }
  for (let i = 0; i < many; i++) service.accept({ body: String(i) })
  await until(() => got.length === many)
  await restarted
  assert.deepEqual(got.map((x) => x.id), ids(many))
  assert.ok(err.includes('connected again'), err.join('\n'))
})

test('each event once though the service answers nothing for a while', async (t) => {
  const { service, got, waiting } = await startForwarder(t, { times: { silence: 500, ready: 500, request: 500 } })
  await waiting()
  service.accept({})
  await until(() => got.length === 1)
  service.written = () => true // written, but it does not arrive
  let unanswered = 0
  service.answer = () => {
    if (++unanswered <= 4) return true
    service.written = () => false
    return false
  }
  service.accept({})
  await until(() => unanswered > 4)
  service.accept({})
  await until(() => got.length === 3)
  assert.deepEqual(got.map((x) => x.id), ids(3))
})

for (const [name, answer, why, times] of [
  ['a proxy that holds the stream back', () => true, /^a proxy holds the event stream back; asking every 0.001 s/,
    { ready: 20 }],
  ['a service without a stream', (_, response) => !reply(response, 404, {}), /^the service or a proxy offers no event/],
]) {
  test(`${name}: events are asked for`, async (t) => {
    const service = new Service()
    service.accept({}) // before the tool starts
    service.answer = (request, response, path) => path.endsWith('/stream') && answer(request, response)
    const { got, err, waiting } = await startForwarder(t, { service, times })
    await waiting()
    for (let i = 0; i < 7; i++) service.accept({ body: String(i), headers: [['X-A', '1'], ['X-A', '2']] })
    service.accept({ status: 'rejected' })
    service.accept({ status: 'skipped', reason: 'duplicate' })
    service.accept({ payload_erased_at: '2026-01-01T00:00:00Z' })
    service.accept({ status: 'skipped', reason: 'filtered' })
    await until(() => got.length === 8)
    assert.deepEqual(got.map((x) => x.id), [...ids(7, 1), 'evt_000011'])
    assert.equal(got[3].body.toString(), '3')
    assert.match(err[0], why)
    assert.equal(err.length, 1, 'an erased event was read')
    const polls = service.requests.length
    await until(() => service.requests.length > polls + 5)
    assert.equal(got.length, 8, 'an event was copied twice')
  })
}

test('a service that comes back while a stream begins is no proxy that holds it back', async (t) => {
  const service = new Service()
  let streams = 0
  service.answer = (_, __, path) => path.endsWith('/stream') && ++streams === 1
  const { waiting } = await startForwarder(t, { service, times: { ready: 200 } })
  await waiting()
  assert.ok(streams >= 2, 'the service was polled after the first stream')
})

test('a stream that is held back after its events were copied leaves none out and copies none twice', async (t) => {
  const { service, got, waiting } = await startForwarder(t, { times: { silence: 30, ready: 30 } })
  await waiting()
  for (let i = 0; i < 3; i++) service.accept({})
  await until(() => got.length === 3)
  service.answer = (_, __, path) => path.endsWith('/stream')
  service.written = () => true
  for (let i = 0; i < 3; i++) service.accept({})
  await until(() => got.length === 6)
  assert.deepEqual(got.map((x) => x.id), ids(6))
})

test('what is shown: banner, a line for each event, the summary, and no header or body', async (t) => {
  const local = (request, response, n) => {
    if (n === 1) response.end()
    if (n === 2) response.writeHead(302, { location: '/elsewhere' }).end()
    if (n === 3) response.writeHead(500).end('x'.repeat(70 << 10))
    if (n === 4) request.socket.destroy()
  }
  const { service, out, err, got, waiting, stop, server } = await startForwarder(t, { local })
  await waiting()
  assert.deepEqual(out, [
    `Forwarding ${endpoint} (Payments) -> ${server.url}/hook?…`,
    'Destinations receive every event as usual. A copy is what was received, before any transformation.',
    'Events sent through the API come unsigned; set RELAY_FORWARD_SIGNING_SECRET=whsec_... to sign their copies.',
    'Waiting for new events; Ctrl-C ends.',
  ])
  for (let i = 0; i < 4; i++) service.accept({ body: 'private body', headers: [['X-Private', 'private header']] })
  await until(() => out.length === 8)
  const line = (i, rest) => assert.match(out[4 + i], new RegExp(`^\\d\\d:\\d\\d:\\d\\d POST ${rest}`))
  line(0, '200 \\d+ ms evt_000000$')
  line(1, '302 \\d+ ms evt_000001 a redirect, not followed: give the final URL$')
  line(2, '500 \\d+ ms evt_000002$')
  line(3, `failed \\d+ ms evt_000003 ${server.url} closed the connection without an answer$`)
  assert.equal(got.length, 4, 'a redirect was followed')
  await server.stop()
  server.stop = () => {}
  service.accept({})
  await until(() => out.length === 9)
  line(4, `failed \\d+ ms evt_000004 nothing listens on ${server.url}$`)
  assert.equal(await stop(), 0)
  assert.equal(out.at(-1), 'Copied 5 events: 1 answered with 2xx, 2 with another status, 2 without an answer.')
  assert.doesNotMatch([...out, ...err].join(), new RegExp(`private|${key}`))
})

test('an answer that never ends, or never begins, holds the next event back no longer than its time', async (t) => {
  const local = (request, response, n) => {
    if (n === 1) response.writeHead(200).write('and on')
    if (n === 3) response.end()
  }
  const { service, out, waiting } = await startForwarder(t, { local, times: { answer: 100 } })
  await waiting()
  for (let i = 0; i < 3; i++) service.accept({})
  await until(() => out.length === 7)
  assert.match(out[5], /POST failed \d+ ms evt_000001 no answer within 0.1 s$/)
})

test('the end of the key or the endpoint ends the tool', async (t) => {
  for (const [reason, code, text] of [
    ['key_revoked', 2, /^the key in RELAY_API_KEY was revoked or has expired; create one/],
    ['endpoint_deleted', 3, /^gave up: the endpoint ep_test was deleted$/],
  ]) {
    const { service, waiting, run, err, out } = await startForwarder(t)
    await waiting()
    service.end(reason)
    assert.equal(await run, code)
    assert.match(err.at(-1), text)
    assert.match(out.at(-1), /^Copied 0 events/)
  }
  for (const [status, code, text] of [
    [401, 2, /does not accept the key in RELAY_API_KEY: it is wrong, expired or revoked; create one/],
    [404, 3, /^gave up: the endpoint ep_test was deleted$/],
  ]) {
    const { service, waiting, run, err } = await startForwarder(t)
    await waiting()
    service.answer = (_, response) => !reply(response, status, {})
    service.end('shutdown')
    assert.equal(await run, code)
    assert.match(err.at(-1), text)
  }
})

test('a service that goes away for good is not waited for for ever', async (t) => {
  const { service, run, err, waiting } = await startForwarder(t, { times: { tries: 7 } })
  await waiting()
  await service.kill()
  assert.equal(await run, 3)
  assert.match(err.at(-1), /^gave up after 7 tries: nothing listens on .*; events since then were not copied$/)
})

test('what the service refuses is said in plain words', async (t) => {
  for (const [status, code, text] of [
    [401, 2, /does not accept the key/], [403, 2, /no read scope, or belongs to another account$/],
    [404, 2, /the id is wrong, the endpoint was deleted, or the key belongs to another account$/],
    [302, 2, /a redirect, which is not followed; set RELAY_BASE_URL/],
    [503, 3, /^gave up after 3 tries: 127.0.0.1:\d+ answers with status 503$/],
    [429, 3, /^gave up after 3 tries: 127.0.0.1:\d+ has too many requests or streams of this key/],
  ]) {
    const service = new Service()
    service.answer = (_, response) => {
      response.setHeader('location', '/elsewhere')
      return !reply(response, status, { error: { message: 'x' } })
    }
    const { run, err } = await startForwarder(t, { service, times: { firstTries: 3 } })
    assert.equal(await run, code, `status ${status}`)
    assert.match(err.at(-1), text)
    assert.ok(!service.requests.includes('/elsewhere'), 'a redirect was followed')
  }
  const service = new Service()
  await service.start()
  await service.kill()
  service.kill = () => {}
  const { run, err } = await startForwarder(t, { service, times: { tries: 2 } })
  assert.equal(await run, 3)
  assert.match(err[0], /^nothing listens on http:\/\/127.0.0.1:\d+; is the service running, .* trying again in 1 s$/)
})

test('copies without a signature are signed if there is a secret', async (t) => {
  const bytes = randomBytes(32)
  const env = { RELAY_FORWARD_SIGNING_SECRET: `whsec_${bytes.toString('base64')}` }
  const { service, got, out, waiting } = await startForwarder(t, { env })
  await waiting()
  assert.ok(out.includes('Copies without a webhook-signature are signed with RELAY_FORWARD_SIGNING_SECRET.'))
  service.accept({ body: '{"a":1}' })
  service.accept({ body: '{}', headers: [['Webhook-Signature', 'v1,theirs']] })
  await until(() => got.length === 2)
  const headers = Object.fromEntries(got[0].raw.flatMap((x, i, all) => (i % 2 ? [] : [[x, all[i + 1]]])))
  assert.equal(headers['webhook-id'], 'evt_000000')
  const signed = `evt_000000.${headers['webhook-timestamp']}.{"a":1}`
  assert.equal(headers['webhook-signature'], `v1,${createHmac('sha256', bytes).update(signed).digest('base64')}`)
  assert.equal(got[1].raw.filter((x) => /^webhook-/i.test(x)).length, 1, 'a signed event was signed again')
  const event = { id: 'evt_1', headers: [['webhook-id', 'theirs']], body: Buffer.alloc(0) }
  assert.deepEqual(copyHeaders(event, bytes), ['webhook-id', 'theirs', 'relay-event-id', 'evt_1'])
})

test('bad usage, keys and targets are refused before anything is sent', async (t) => {
  const service = new Service()
  const lookup = async (host) => ({
    'public.test': [{ address: '93.184.215.14', family: 4 }], 'mixed.test': [{ address: '127.0.0.1', family: 4 },
      { address: '8.8.8.8', family: 4 }], 'metadata.test': [{ address: '169.254.169.254', family: 4 }],
    'private.test': [{ address: '10.1.2.3', family: 4 }], 'empty.test': [],
  }[host] ?? Promise.reject(Object.assign(new Error(host), { code: 'ENOTFOUND' })))
  const remote = { RELAY_FORWARD_ALLOW_REMOTE: '1' }
  const neither = /is neither on this machine nor in a private network/
  const special = /is link-local, a metadata service or reserved for another use; nothing is sent there$/
  for (const [args, text, env] of [
    [[], /^two arguments are needed: an endpoint id and a local URL\n\nUsage:/], [['ep_1', 'x', 'y'], /^two arguments/],
    [['evt_1', 'http://localhost'], /^the first argument is an endpoint id/],
    [['ep_1', 'http://localhost'], /^set RELAY_API_KEY/, { RELAY_API_KEY: undefined }],
    [['ep_1', 'http://localhost'], /^set RELAY_API_KEY/, { RELAY_API_KEY: 'a\nb' }],
    [['ep_1', 'localhost:3000'], /begins with localhost:; give one that begins with http: or https:$/],
    [['ep_1', 'file:///etc/passwd'], /begins with file:/], [['ep_1', 'nonsense'], /is not a URL; give one/],
    [['ep_1', 'http://user:hidden@localhost'], /has a user name or password; leave out what is before the @$/],
    [['ep_1', 'http://@localhost'], /has a user name or password/], [['ep_1', 'http://localhost/#x'], /has a fragment/],
    [['ep_1', 'http://169.254.169.254/latest'], special], [['ep_1', 'http://[fe80::1]/'], special],
    [['ep_1', 'http://[fd00:ec2::254]/'], special], [['ep_1', 'http://0.0.0.0/'], special],
    [['ep_1', 'http://[::ffff:169.254.1.1]/'], special], [['ep_1', 'http://0xa9fea9fe/'], special],
    [['ep_1', 'http://metadata.test/'], special], [['ep_1', 'https://metadata.test/'], special, remote],
    [['ep_1', 'https://[64:ff9b::a9fe:a9fe]/'], special, remote], [['ep_1', 'https://224.0.0.1/'], special, remote],
    ...['[fd20:ce::254]', '[fd00:c1::a9fe:a9fe]', '100.100.100.200', '192.0.0.192', '168.63.129.16', '[::7f00:1]', '[::2]',
      '[2001:0:a9fe:a9fe::1]', '[64:ff9b::7f00:1]', '[::ffff:0:127.0.0.1]', '[fec0::1]', '[2002:a9fe:a9fe::1]',
      '[::ffff:100.100.100.200]', '[2001:db8::1]', '198.18.0.1', '255.255.255.255',
    ].flatMap((host) => [[['ep_1', `http://${host}/`], special], [['ep_1', `https://${host}/`], special, remote]]),
    [['ep_1', 'http://8.8.8.8/'], neither], [['ep_1', 'http://172.32.0.1/'], neither],
    [['ep_1', 'http://[2a00::1]/'], neither], [['ep_1', 'http://public.test/'], neither],
    [['ep_1', 'http://mixed.test/'], neither], [['ep_1', 'http://public.test/'], /must use https$/, remote],
    [['ep_1', 'http://nowhere.test/'], /^nowhere.test cannot be resolved \(ENOTFOUND\); check its spelling$/],
    [['ep_1', 'http://empty.test/'], /^empty.test has no address/],
    [['ep_1', 'http://localhost'], /RELAY_BASE_URL must use https:/, { RELAY_BASE_URL: 'http://public.test' }],
    [['ep_1', 'http://localhost'], /RELAY_BASE_URL must use https:/, { RELAY_BASE_URL: 'http://private.test' }],
    [['ep_1', 'http://localhost'], /RELAY_BASE_URL must be https/, { RELAY_BASE_URL: 'https://a:b@public.test' }],
    [['ep_1', 'http://localhost'], /RELAY_BASE_URL is not a URL/, { RELAY_BASE_URL: 'public' }],
    [['ep_1', 'http://localhost'], /must be whsec_ and 24/, { RELAY_FORWARD_SIGNING_SECRET: 'whsec_c2hvcnQ=' }],
  ]) {
    const { run, err } = await startForwarder(t, { args, env, lookup, service })
    assert.equal(await run, 2, args.join(' '))
    assert.match(err.join('\n'), text)
    assert.doesNotMatch(err.join(), /hidden/)
  }
  assert.equal(service.requests.length, 0)
})

test('targets on this machine, in private networks and, if allowed, elsewhere over https are accepted', async (t) => {
  const addresses = { 'web.test': '172.17.0.2', 'public.test': '93.184.215.14' }
  const lookup = async (host) => [{ address: addresses[host], family: 4 }]
  const remote = { RELAY_FORWARD_ALLOW_REMOTE: '1' }
  const service = new Service()
  for (const [target, env] of [
    ['http://localhost:3000'], ['http://app.localhost/x'], ['http://127.8.9.1'], ['http://[::1]:1'], ['http://10.0.0.1'],
    ['http://192.168.1.1'], ['http://[fd12::1]'], ['http://[::ffff:127.0.0.1]'], ['http://web.test:3000'],
    ['https://public.test/x', remote], ['http://web.test', remote],
  ]) {
    const { waiting, stop } = await startForwarder(t, { args: [endpoint, target], env, lookup, service })
    await waiting()
    assert.equal(await stop(), 0, target)
  }
})

test('a name that leads elsewhere later (rebinding) is resolved once', async (t) => {
  let asked = 0
  const lookup = async () => [{ address: asked++ ? '8.8.8.8' : '127.0.0.1', family: 4 }]
  const got = []
  const server = await startServer((request, response) => response.end(got.push(request.headers.host) && ''))
  t.after(server.stop)
  const { service, waiting, out } = await startForwarder(t, { args: [endpoint, `http://name.test:${server.port}/`], lookup })
  await waiting()
  service.accept({})
  for (const stream of service.streams) service.write(stream, 0) // once more
  service.accept({})
  await until(() => out.length === 6)
  assert.match(out[5], /evt_000001$/, 'an event was copied twice')
  assert.deepEqual(got, Array(2).fill(`name.test:${server.port}`))
  assert.equal(asked, 1)
})

test('the parser of server-sent events takes any chunks', async () => {
  const text = 'id: 1\nevent: a\ndata: é☃\n\n: comment\n\nid:2\r\ndata: x\r\ndata:y\r\n\r\nretry: 5\nevent: none\n\ndata\n\n'
  const bytes = new TextEncoder().encode(text)
  const want = [{ id: '1', event: 'a', data: 'é☃' }, { id: '2', data: 'x\ny' }, { data: '' }]
  for (let size = 1; size <= bytes.length; size++) {
    const body = new ReadableStream({ start(c) {
      for (let i = 0; i < bytes.length; i += size) c.enqueue(bytes.slice(i, i + size))
      c.close()
    } })
    const got = []
    for await (const message of messages(body)) got.push(message)
    assert.deepEqual(got, want, `chunks of ${size}`)
  }
})

test('Ctrl-C ends the program with 0 after the request in flight', async (t) => {
  const service = new Service()
  await service.start()
  let held
  const server = await startServer((_, response) => { held = response })
  const child = spawn(process.execPath, [program, endpoint, server.url], {
    env: { RELAY_API_KEY: key, RELAY_BASE_URL: service.url }, stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => Promise.all([service.kill(), server.stop()]))
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text) => { out += text })
  await until(() => out.includes('Waiting'))
  service.accept({})
  await until(() => held)
  child.kill('SIGINT')
  await until(() => service.streams.size === 0)
  held.writeHead(201).end()
  const [code] = await once(child, 'close')
  assert.equal(code, 0)
  assert.match(out, /POST 201 \d+ ms evt_000000\nCopied 1 event: 1 answered with 2xx, 0 with another status, 0 without/)
})

nodeTest('Node.js 18 gets one line', { skip: !isOld && 'this Node.js is newer' }, async () => {
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => { text += chunk })
  const [code] = await once(child, 'close')
  assert.equal(code, 2)
  assert.equal(text, `this tool needs Node.js 20 or newer; this is ${process.version}\n`)
})
