// The SDK in Node.js: what it reports and when. table.test.mjs has what it catches.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { test } from 'node:test'
import { hmac } from './src/hash.js'
import { parseDSN, randomId } from './src/dsn.js'
import { newScanner } from './src/engine.js'
import { find, maskText } from './src/lines.js'
import { newSender } from './src/sender.js'
import { caught, key, masked, reported, run, runTests, skip, start } from './test/run.mjs'
import { newSink, publicKey } from './test/sink.mjs'

test('a report has the mask, the fingerprint and the place', { skip }, async () => {
  const { reports, batches } = await caught("init({ dsn: '$DSN', environment: 'prod', release: 'a1' }); function charge() { console.warn('$KEY') } charge(); charge()"
    .replace(/^/, "import { init } from './src/index.js'; "))
  const salt = Buffer.alloc(16)
  salt[15] = 62 + 61
  const fp1 = crypto.createHmac('sha256', salt).update(key).digest('base64url')
  const counts = reports.map((r) => r.count)
  assert.deepEqual([...new Set(reports.map((r) => [r.masked, r.fp1, r.where.logger, r.where.function].join()))],
    [[masked, fp1, 'console.warn', 'charge'].join()])
  assert.equal(counts.reduce((a, b) => a + b, 0), 2)
  assert.equal(batches[0].environment, 'prod')
  assert.equal(batches[0].release, 'a1')
})

test('the first hit is sent within a moment, without flush', { skip }, async () => {
  const sink = await newSink()
  await run("console.log('$KEY'); setInterval(() => {}, 1000)", { sink, register: true, killAfter: sink.first,
    env: { RELAY_ENVIRONMENT: 'stage', RELAY_RELEASE: 'a2' } })
  sink.stop()
  assert.deepEqual([sink.batches[0].environment, sink.batches[0].release], ['stage', 'a2'])
  assert.equal(sink.reports().length, 1)
})

test('a relay that does not answer keeps no process alive: its end waits for one flush', { skip }, async () => {
  const sink = await newSink(['nothing', 'nothing', 'nothing'])
  const { status, out } = await run("console.log('$KEY'); process.on('exit', () => console.log('took', performance.now()))", { sink, register: true })
  sink.stop()
  assert.equal(status, 0)
  assert.match(out, /took/)
  assert.equal(sink.requests, 1)
})

test('a relay that cannot be reached is said once, to onError too, without the key of the DSN', { skip }, async () => {
  const sink = await newSink()
  sink.stop() // nobody listens there now
  const host = new URL(sink.origin).host
  const line = `eventrelay: cannot reach ${host} (ECONNREFUSED): up to 200 reports wait in memory; each is tried 4 times, ` +
    'and is lost then or when the process ends\n'
  const code = `import { flush, init } from './src/index.js'; const said = []
    init({ dsn: '$DSN', onError: (error) => { said.push(error.message, error.cause.code); throw error } }); console.log('$KEY')`
  const ends = {
    'by itself': '',
    'after flush': 'await flush(); await flush()',
    'by exit after one try': 'setTimeout(() => process.exit(), 500)',
    'after a short flush': 'setTimeout(async () => { await flush(50); process.exit() }, 300)',
    'by an error': "setTimeout(() => { throw new Error('fatal') })",
  }
  await Promise.all(Object.entries(ends).map(async ([how, end]) => {
    const { err, out } = await run(`${code}; process.on('exit', () => console.log(said.join())); ${end}`, { sink })
    assert.deepEqual(err.match(/^eventrelay: .*\n/gm), [line], how + err)
    assert.ok(out.startsWith(`${masked}\n`) && !(out + line).includes(publicKey), out + err)
    if (how !== 'by exit after one try') assert.equal(out, `${masked}\n${line.slice(12, -1)},ECONNREFUSED\n`, how)
  }))
  const silent = await run(`${code}; process.stderr.destroy(); setTimeout(() => console.log('goes on'), 2500)`, { sink })
  assert.ok(silent.out.endsWith('goes on\n') && silent.status === 0)
})

test('a relay that does not answer is said by flush', { skip }, async () => {
  const { err, status } = await caught("console.log('$KEY')", { answers: ['nothing'] })
  assert.match(err, /^eventrelay: cannot reach 127\.0\.0\.1:\d+ \(no answer for [12] s\): .*\n$/)
  assert.equal(status, 0)
})

for (const [what, options, answers, sent, said, thrown = said] of [
  ['the relay accepts it', '', [], true],
  ['there is no DSN', 'dsn: undefined', [], false, 'no DSN is set: secrets are masked, nothing is reported'],
  ['the SDK is not enabled', 'enabled: false', [], false],
  ['the DSN is unknown', '', [401], false, 'the relay refuses reports: status 401'],
  ['nothing is there', '', [404, 404], false, 'the relay refuses reports: status 404'],
  ['another server answers', '', ['<html>', '<html>'], false, 'the relay refuses reports: status 202'],
  ['the quota is used up', '', Array(2).fill('{"accepted":0,"rejected":[{"index":0,"reason":"quota"}]}'), false,
    'the relay refuses reports: quota'],
  ['the answer is too long', '', Array(2).fill(' '.repeat(1 << 20) + '{"rejected":[]}'), false,
    'the relay refuses reports: status 202'],
  ['beforeSend returns a copy', 'beforeSend: (r) => ({ ...r })', [], true],
  ['beforeSend drops it', 'beforeSend: () => null', [], false],
  ['beforeSend is asynchronous', 'beforeSend: async (r) => r', [], false, 'beforeSend has failed', 'no report'],
]) {
  test(`sendTest resolves to ${sent} if ${what}`, { skip }, async () => {
    const { out, err, bodies } = await caught(`import { flush, init, sendTest } from './src/index.js'; const said = new Set()
      init({ dsn: '$DSN', onError: (error) => said.add(error.message), ${options} })
      console.log([await sendTest(60_000), await sendTest(60_000)].join(), [...said].join())`, { answers, register: false })
    const lines = out.split('\n')
    assert.equal(lines.at(-2), `${sent},${sent} ${options.startsWith('dsn') ? '' : thrown ?? ''}`, out)
    assert.equal(err, said ? `eventrelay: ${said}\n` : '')
    assert.ok(!bodies.includes('{}'), bodies)
  })
}

test('process.exit after flush loses nothing', { skip }, async () => {
  const { reports } = await caught("import { flush } from './src/index.js'; console.log('$KEY'); await flush(); process.exit(0)")
  assert.equal(reports.length, 1)
})

test('without a DSN, with a wrong one and with a wrong option lines are masked, with one warning', { skip }, async () => {
  for (const dsn of ['', 'nonsense', `http://${publicKey}@example.com/dsn_a1`, `https://${publicKey.slice(1)}@example.com/dsn_a1`]) {
    const { out, err, status } = await run(`console.log('$KEY'); console.log('$KEY')`, { register: true, env: { RELAY_DSN: dsn } })
    assert.equal(status, 0)
    assert.equal(out, `${masked}\n${masked}\n`)
    assert.equal(err.match(/eventrelay: /g).length, 1, err)
  }
  const { err } = await run("import { init } from './src/index.js'; init({ dsn: 1, nonsense: 1, queueSize: -1, release: 'a b', rules: { extra: [{}] } }); " +
    "init(null); console.log('$KEY')")
  assert.equal(err.match(/eventrelay: /g).length, 6, err)
})

test('an unknown rule is said once, and --frozen-intrinsics is no error', { skip }, async () => {
  const { out, err } = await run(`import { init } from './src/index.js'
    for (let i = 0; i < 2; i++) init({ dsn: '$DSN', rules: { disable: ['nonsense', 'npm-token'] } }); console.log('$KEY')`,
  { sink: { dsn: ` http://${publicKey}@127.0.0.1:9/dsn_1\\n` }, env: { NODE_OPTIONS: '--frozen-intrinsics' } })
  assert.equal(out, `${masked}\n`)
  assert.deepEqual(err.match(/^eventrelay: (?!cannot reach).*/gm), ['eventrelay: the rule nonsense is unknown'], err)
})

test('a key that beforeSend logs is masked, and reported once a place', { skip }, async () => {
  const { out, reports, requests } = await caught(`import { init, flush } from './src/index.js'
    init({ dsn: '$DSN', beforeSend: (report) => { console.log('$KEY'); return report } }); console.log('$KEY')
    console.log(await flush(60_000))`, { register: false })
  assert.equal(out, `${masked}\n`.repeat(3) + 'true\n')
  assert.deepEqual([reports.length, requests], [2, 2])
})

test('if masking fails the line is withheld, counted and reported; failOpen writes it', { skip }, async () => {
  const fault = "const { get } = Object.getOwnPropertyDescriptor(Uint8Array.prototype.__proto__, 'length'); " +
    "import { init, flush } from './src/index.js'; const { encode } = TextEncoder.prototype; " +
    "init({ dsn: '$DSN', failOpen: process.argv[1] === 'open' }); TextEncoder.prototype.encode = () => { throw new Error('no') }; " +
    "console.log('é $KEY'); TextEncoder.prototype.encode = encode; await flush()"
  const closed = await caught(fault, { register: false })
  assert.equal(closed.out, '[log line withheld: masking failed]\n')
  assert.ok(!closed.err.includes(key))
  assert.equal(closed.batches.reduce((n, b) => n + (b.dropped?.masking_failed ?? 0), 0), 1)
  const open = await caught(fault, { register: false, args: ['open'] })
  assert.ok(open.out.includes(key))
})

test('circular, huge and hostile values, and long lines, are written', { skip }, async () => {
  const { out, err, status } = await caught(`
    const a = { get bad() { throw new Error('bad') }, big: 'x'.repeat(1e5) }; a.self = a; console.log(a)
    process.stdout.write('y'.repeat(10 << 20) + ' $KEY\\n')
    process.stdout.write(new Uint8Array([255, 0, 1, 10]))
    process.stdout.write('', () => console.log('callback'))
    try { process.stdout.write(null) } catch { console.log('refused') }`)
  assert.equal(status, 0, err)
  assert.ok(out.includes(masked) && out.includes('callback') && out.includes('refused'))
  assert.ok(!out.includes(key))
})

test('close restores the streams; init again patches once; two copies report once', { skip }, async () => {
  const { out, reports } = await caught(`const before = process.stdout.write
    const one = await import('./src/index.js?1'); const two = await import('./src/node.js?2')
    one.init({ dsn: '$DSN' }); two.init({ dsn: '$DSN' }); one.init({ dsn: '$DSN' })
    console.log('$KEY'); await two.close(); console.log(process.stdout.write === before)`, { register: false })
  assert.equal(out, `${masked}\ntrue\n`)
  assert.equal(reports.length, 1)
})

test('init takes what an application has put in the place of a stream, also if it can only write', { skip }, async () => {
  const { out, err, status } = await caught(`
    import { writeSync } from 'node:fs'
    import { init } from './src/index.js'
    Object.defineProperty(process, 'stdout', { value: { write: (text) => writeSync(1, text) } })
    init({ dsn: '$DSN' }); process.stdout.write('$KEY\\n')`)
  assert.deepEqual([out, err, status], [masked + '\n', '', 0])
})

test('a burst of 10,000 lines keeps its order', { skip }, async () => {
  const { out } = await caught("for (let i = 0; i < 10000; i++) console.log(i, i % 100 ? 'x' : '$KEY')")
  const lines = out.trimEnd().split('\n')
  assert.equal(lines.length, 10_000)
  lines.forEach((line, i) => assert.equal(line, `${i} ${i % 100 ? 'x' : masked}`))
})

test('node --test ends when a test has a key in its name, its error and its output', { skip }, async () => {
  const { out, status } = await runTests(`const test = require('node:test')
    test('pays with $KEY', () => { console.log('printed $KEY'); throw new Error('declined $KEY') }); test('last', () => {})`)
  assert.equal(status, 1, out)
  assert.match(out, /. fail 1$/m)
  assert.ok(out.includes(`printed ${masked}`) && out.includes('declined '), out)
})

test('bytes like the frames of node --test are masked outside of tests', { skip }, async () => {
  const { out } = await run(`const frame = Buffer.from('\\xff\\x0f\\0\\0\\0\\0 $KEY\\n', 'latin1')
    frame.writeUInt32BE(frame.length - 6, 2); process.stdout.write(frame)`, { register: true, env: { NODE_TEST_CONTEXT: '' } })
  assert.ok(out.endsWith(` ${masked}\n`), out)
})

for (const [express, how] of [['express', 'middleware'], ['express4', 'middleware'], ['express', 'bare'], ['express4', 'bare']]) {
  test(`responses with ${express} and compression, ${how}, are reported and not changed`, { skip }, async () => {
    const { out, reports } = await caught(`
      import express from '${express}'; import compression from 'compression'; import http from 'node:http'
      import { relayMiddleware } from './src/express.js'; ${reported}
      const app = express(); app.use(compression({ threshold: 0 }))
      if (process.argv[1] !== 'bare') app.use(relayMiddleware())
      app.get('/a/b', (req, res) => res.status(201).json({ key: '$KEY', publishable: 'AIza' + 'aB3dE5gH7jK9mN1pQ3sT5vX7yZ1bC3dE5fG' }))
      app.get('/binary', (req, res) => res.type('png').send(Buffer.from('$KEY')))
      const server = app.listen(0, '127.0.0.1', async () => {
        const sent = reported(1)
        const texts = [await get(server, '/binary'), await get(server, '/a/b?q=$KEY')]
        await sent; await flush(); process.stdout.write(String(texts[1].length)); process.exit()
      })`, { args: [how] })
    assert.equal(out, String(JSON.stringify({ key, publishable: 'AIza' + 'aB3dE5gH7jK9mN1pQ3sT5vX7yZ1bC3dE5fG' }).length))
    assert.deepEqual(reports.map((r) => ({ ...r, first_at: 0, last_at: 0, fp1: 0 })), [{
      type: 'response', rule: 'stripe-secret-live', masked, count: 1, first_at: 0, last_at: 0, fp1: 0,
      where: { method: 'GET', path: '/a/b', status: 201, content_type: 'application/json; charset=utf-8' },
    }])
  })
}

test('compressed responses without the middleware are decoded, also if they are cut', { skip }, async () => {
  const { out, reports } = await caught(`
    import http from 'node:http'; import zlib from 'node:zlib'; ${reported}
    const { gzipSync: gzip, brotliCompressSync: br, deflateSync: deflate, deflateRawSync: raw, zstdCompressSync: zstd } = zlib
    const { constants: { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush } } = zlib
    const cut = (f, finishFlush) => (x) => f(x, { finishFlush })
    const codings = { gzip, br, deflate, identity: (x) => x, 'X-GZIP': gzip, 'Deflate#raw': raw, 'gzip, br': (x) => br(gzip(x)),
      'gzip#cut': cut(gzip, Z_SYNC_FLUSH), 'br#cut': cut(br, BROTLI_OPERATION_FLUSH), 'deflate#cut': cut(deflate, Z_SYNC_FLUSH),
      'deflate#cut raw': cut(raw, Z_SYNC_FLUSH), ...(zstd && { zstd, 'zstd#cut': cut(zstd, ZSTD_e_flush) }) }
    const names = Object.keys(codings)
    const server = http.createServer((req, res) => {
      const name = names[req.url.slice(1)]
      res.writeHead(200, { 'content-type': 'application/json', 'content-encoding': name.split('#')[0] })
      const body = codings[name](Buffer.from('{"a":"$KEY"}')); res.write(body.subarray(0, 9)); res.end(body.subarray(9))
    }).listen(0, '127.0.0.1', async () => {
      await Promise.all(names.map((_, i) => new Promise((f) =>
        http.get({ port: server.address().port, path: '/' + i }, (res) => res.resume().on('close', f)))))
      await flush(60_000); console.log(names.length); process.exit()
    })`)
  assert.deepEqual(reports.map((r) => r.where.path).sort(), Array.from({ length: +out }, (_, i) => `/${i}`).sort())
})

for (const how of ['middleware', 'bare']) {
  test(`responses that the client or destroy ends, and long ones, are reported, ${how}`, { skip }, async () => {
    const { reports } = await caught(`
      import http from 'node:http'; import { pipeline, Readable } from 'node:stream'
      import { relayMiddleware } from './src/express.js'; ${reported}; const sent = reported(3)
      async function * events() { yield 'data: $KEY\\n\\n'; for (;;) yield await new Promise((f) => setTimeout(f, 20, 'data: 1\\n\\n')) }
      const answers = {
        '/stream': (res) => pipeline(Readable.from(events()), res, () => {}),
        '/destroyed': (res) => { res.write('$KEY'); setTimeout(() => res.destroy(), 20) },
        '/endless': (res) => { res.write('$KEY ' + 'x'.repeat(1 << 18)) },
      }
      const server = http.createServer((req, res) => {
        res.setHeader('content-type', 'text/event-stream')
        process.argv[1] === 'bare' ? answers[req.url](res) : relayMiddleware()(req, res, () => answers[req.url](res))
      }).listen(0, '127.0.0.1', async () => {
        for (const path in answers) {
          const request = http.get({ port: server.address().port, path }, (res) => res.on('error', () => {})
            .once('data', () => path === '/stream' && request.destroy())).on('error', () => {})
        }
        await sent; await flush(); process.exit()
      })`, { args: [how], killAfter: new Promise((resolve) => { setTimeout(resolve, 20_000).unref() }) })
    assert.deepEqual(reports.map((r) => r.where.path).sort(), ['/destroyed', '/endless', '/stream'])
  })
}

for (const [how, answer] of Object.entries({
  'end': "res.end('$KEY'); done()",
  'end, compressed': "res.setHeader('content-encoding', 'gzip, br'); res.end(br(gzip('$KEY'))); done()",
  'destroy': "res.write('$KEY'); res.on('close', done); setTimeout(() => res.destroy())",
})) {
  test(`flush waits for the check of a response, when nothing else happens: ${how}`, { skip }, async () => {
    const sink = await newSink()
    const child = start(`import http from 'node:http'; import { gzipSync as gzip, brotliCompressSync as br } from 'node:zlib'; ${reported}
      init({ dsn: '$DSN' }); const done = () => flush(5000).then((sent) => { console.log(sent); process.exit() })
      http.createServer((req, res) => { res.sendDate = false; ${answer} }) // the date has a timer, which would wake the process
        .listen(0, '127.0.0.1', function () { console.log(this.address().port + '/') })`, { sink })
    await child.until('/')
    const request = http.get(`http://127.0.0.1:${child.result.out}`, (res) => res.on('error', () => {}).resume()).on('error', () => {})
    if (child.exitCode === null) await once(child, 'close')
    request.destroy()
    assert.match(child.result.out, /^true$/m)
    sink.stop()
    assert.deepEqual(sink.reports().map((r) => r.masked), [masked])
  })
}

test('responses that send no body are not reported', { skip }, async () => {
  const { reports } = await caught(`
    import http from 'node:http'; ${reported}; const sent = reported(1)
    const server = http.createServer((req, res) => {
      res.writeHead(+req.url.slice(1, 4), { 'content-type': 'text/plain' }).end('$KEY')
    }).listen(0, '127.0.0.1', async () => {
      await get(server, '/200/head', { method: 'HEAD' })
      for (const path of ['/204', '/304', '/200/last']) await get(server, path)
      await sent; await flush(); process.exit()
    })`)
  assert.deepEqual(reports.map((r) => [r.where.status, r.where.path]), [[200, '/200/last']])
})

// ---- without a process of their own ----

const header = () => ({ sdk: { name: 'relay.javascript', version: '1' } })
const target = { url: 'u', queueSize: 3, flushInterval: 5000 }
const report = (rule) => ({ type: 'log', rule, masked: '***', where: {} })

test('statuses decide whether a batch is sent again', { skip }, async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (const { answers, sent, dropped, stops } of [
    { answers: [202], sent: 1, dropped: 0 },
    { answers: [500, 0, 503, 202], sent: 4, dropped: 0 },
    { answers: [500, 500, 500, 500], sent: 4, dropped: 1 },
    { answers: [429, 429, 202], sent: 3, dropped: 0 },
    { answers: [429, 429, 429, 429, 429, 429], sent: 6, dropped: 1 },
    { answers: [413], sent: 1, dropped: 1 },
    { answers: [403], sent: 1, dropped: 1 },
    { answers: [302], sent: 1, dropped: 1 },
    { answers: [401], sent: 1, dropped: 1, stops: true },
  ]) {
    const bodies = []
    const left = [...answers]
    const sender = newSender({ header, maxBytes: 1 << 17, warn: () => {}, outage: () => '', transport: async (_, body) => {
      bodies.push(body)
      const status = left.shift() ?? 202
      if (status === 0) throw new Error('no connection')
      return { status, retryAfter: '1', text: '{"rejected":[]}' }
    } })
    sender.start(target)
    sender.add(report('a'))
    for (let i = 0; i < 100; i++) {
      t.mock.timers.tick(1000)
      for (let k = 0; k < 10; k++) await Promise.resolve()
    }
    assert.equal(bodies.length, sent, String(answers))
    assert.equal(new Set(bodies.map((b) => JSON.parse(b).id)).size, 1, 'a batch keeps its id')
    sender.add(report('b'))
    for (let i = 0; i < 10; i++) {
      t.mock.timers.tick(1000)
      for (let k = 0; k < 10; k++) await Promise.resolve()
    }
    assert.equal(bodies.length, stops ? sent : sent + 1, String(answers))
    if (!stops) assert.equal(JSON.parse(bodies.at(-1)).dropped?.send_failed ?? 0, dropped, String(answers))
  }
})

// outages runs a sender whose tries have these answers, 0 for none, and returns what it says. At the texts in between the
// clock goes on by a minute, and a batch follows each list.
async function outages(t, ...lists) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let clock = 1000
  t.mock.method(performance, 'now', () => clock)
  const said = []
  let left
  const sender = newSender({ header, maxBytes: 1 << 17, outage: (host, cause) => `no ${host}: ${cause.message}`,
    warn: (text, error, again) => said.push({ text, error, again }), transport: async () => {
      const status = left.shift()
      if (!status) throw new Error('refused')
      return { status, text: '{"rejected":[]}' }
    } })
  sender.start({ ...target, host: 'h' })
  for (const [i, list] of lists.entries()) {
    if (typeof list === 'number') {
      clock += list
      continue
    }
    left = [...list]
    sender.add(report(`r${i}`))
    for (let k = 0; k < 45; k++) {
      t.mock.timers.tick(1000)
      for (let n = 0; n < 10; n++) await Promise.resolve()
    }
    assert.deepEqual(left, [], String(list))
  }
  return said
}

for (const [what, texts, ...lists] of [
  ['nothing if the first retry is answered', [], [0, 202], [503, 202], [0, 429, 202]],
  ['once, also if it goes on', ['no h: refused'], [0, 0, 0, 0], [0, 0, 0, 0], 100_000, [0, 202]],
  ['lasting 5xx', ['no h: status 503'], [503, 503, 202]],
  ['again after an answer and a minute', ['no h: refused', 'no h: refused'], [0, 0, 202], 61_000, [0, 0, 202]],
  ['not twice in a minute', ['no h: refused'], [0, 0, 202], 1000, [0, 0, 202]],
  ['after that minute, if it goes on', ['no h: refused', 'no h: refused'], [0, 0, 202], [0, 0, 0, 0], 61_000, [0, 202]],
]) {
  test(`an outage is said: ${what}`, { skip }, async (t) => {
    const said = await outages(t, ...lists)
    assert.deepEqual(said.map((s) => s.text), texts)
    for (const { text, error, again } of said) {
      assert.deepEqual([error.message, error.cause instanceof Error, again], [text, true, true])
    }
  })
}

test('a test is accepted unless its own report is rejected; each reason is said', { skip }, async () => {
  const said = []
  let index
  const text = () => JSON.stringify({ rejected: [{ index, reason: 'quota' }, { index: 9, reason: 'quota' }] })
  const sender = newSender({ header, maxBytes: 1 << 17, warn: (what, error) => said.push([what, error.message]),
    transport: async () => ({ status: 202, text: text() }) })
  sender.start(target)
  for (index of [0, 1]) {
    sender.add(report('a'))
    assert.equal(await sender.test(report(`test${index}`)), index === 0)
  }
  const what = 'the relay refuses reports: quota'
  assert.deepEqual(said, Array(2).fill([what, what]))
})

test('equal hits are merged, and the queue is bounded', { skip }, async () => {
  const bodies = []
  const sender = newSender({ header, maxBytes: 1 << 17, warn: () => {}, transport: async (_, body) => {
    bodies.push(JSON.parse(body))
    return { status: 202, text: '{"rejected":[]}' }
  } })
  sender.start(target)
  for (let i = 0; i < 1000; i++) for (const rule of ['a', 'b', 'c', 'd']) sender.add(report(rule))
  assert.equal(await sender.flush(), true)
  assert.equal(bodies.length, 1)
  assert.deepEqual(bodies[0].reports.map((r) => [r.rule, r.count]), [['a', 1000], ['b', 1000], ['c', 1000]])
  assert.deepEqual(bodies[0].dropped, { queue_full: 1000 })
})

test('a batch has 50 reports and its bytes at most', { skip }, async () => {
  const bodies = []
  const sender = newSender({ header, maxBytes: 60_000, warn: () => {}, transport: async (_, body) => {
    bodies.push(body)
    return { status: 202, text: '{"rejected":[]}' }
  } })
  sender.start({ ...target, queueSize: 200 })
  for (let i = 0; i < 200; i++) sender.add({ ...report(`r${i}`), where: { file: 'x'.repeat(i < 100 ? 10 : 2000) } })
  assert.equal(await sender.flush(), true)
  assert.ok(bodies.every((b) => b.length <= 60_000 && JSON.parse(b).reports.length <= 50))
  assert.equal(bodies.reduce((n, b) => n + JSON.parse(b).reports.length, 0), 200)
})

test('a beforeSend that calls flush neither sends reports again nor leaves some out', { skip }, async () => {
  const batches = []
  const flushed = []
  const sender = newSender({ header, maxBytes: 1 << 17, warn: () => {}, transport: async (_, body) => {
    await new Promise(setImmediate)
    batches.push(JSON.parse(body).reports.map((r) => r.rule).join(''))
    return { status: 202, text: '{"rejected":[]}' }
  } })
  sender.start({ ...target, queueSize: 10, beforeSend: (r) => {
    flushed.push(sender.flush(60_000).then(() => batches.length))
    return r
  } })
  for (const rule of 'abcdef') sender.add(report(rule))
  assert.equal(await sender.flush(60_000), true)
  assert.deepEqual(batches, ['abcdef'])
  assert.deepEqual(await Promise.all(flushed), Array(6).fill(1), 'it resolves when the batch is sent')
})

test('after a beforeSend that starts or stops the SDK nothing of before is sent', { skip }, async () => {
  for (const next of [null, { ...target, url: 'other' }]) {
    const urls = []
    const said = []
    const sender = newSender({ header, maxBytes: 1 << 17, warn: (what) => said.push(what), transport: async (url) => {
      urls.push(url)
      return { status: 202, text: '{"rejected":[]}' }
    } })
    const filtered = []
    sender.start({ ...target, beforeSend: (r) => {
      filtered.push(r.rule)
      sender.start(next)
      return r
    } })
    for (const rule of 'abc') sender.add(report(rule))
    assert.equal(await sender.flush(60_000), true)
    assert.deepEqual([urls, filtered, said], [[], ['a'], []])
  }
})

test('HMAC-SHA256 is that of Node.js', { skip }, () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000]) {
    const [salt, message] = [crypto.randomBytes(16), crypto.randomBytes(length)]
    assert.deepEqual(Buffer.from(hmac(salt, message)), crypto.createHmac('sha256', salt).update(message).digest())
  }
})

test('a DSN has one form', { skip }, () => {
  const f = (dsn) => parseDSN(dsn)?.url ?? null
  assert.equal(f(`https://${publicKey}@a.example/x/y/dsn_1`), `https://a.example/x/y/api/dsn_1/reports?k=${publicKey}&v=1`)
  assert.equal(f(`http://${publicKey}@[::1]:8080/dsn_1`), `http://[::1]:8080/api/dsn_1/reports?k=${publicKey}&v=1`)
  assert.equal(f(` https://${publicKey}@a.example/dsn_1\n`), f(`https://${publicKey}@a.example/dsn_1`))
  for (const dsn of [undefined, null, 1, {}, '', ` ${publicKey}`, `http://${publicKey}@a.example/dsn_1`, `https://${publicKey}@a.example/dsn_`,
    `https://${publicKey}@a.example/dsn_1?x`, `https://${publicKey}0@a.example/dsn_1`, `ftp://${publicKey}@a.example/dsn_1`,
    `https://pk${'z'.repeat(44)}@a.example/dsn_1`, `https://${publicKey}@/dsn_1`]) assert.equal(f(dsn), null, String(dsn))
  assert.match(randomId(), /^[0-9A-Za-z]{22}$/)
})

test('spans are positions in JavaScript strings', { skip }, () => {
  const scanner = newScanner()
  for (const before of ['', 'é ', '€ ', '😀 ', '\ud800 ', 'a'.repeat(3) + '😀é€ ']) {
    const [match] = find(scanner, before + key + ' 😀')
    assert.equal(match.start, before.length)
    assert.equal(match.end, before.length + key.length)
    assert.equal(maskText(scanner, before + key).text, before.toWellFormed?.() + masked === before + masked ? before + masked
      : maskText(scanner, before + key).text)
  }
})

test('rules can be disabled and added', { skip }, () => {
  const extra = [{ id: 'custom:acme', kind: 'token', prefixes: ['acme_'], charset: 'alnum', min: 16, max: 32 }]
  const scanner = newScanner({ disable: ['stripe-secret-live'], extra })
  assert.deepEqual(find(scanner, `${key} acme_aB3dE5gH7jK9mN1p`).map((m) => m.rule.id), ['custom:acme'])
})

test('a clock that is set back changes neither the order of times nor when reports are sent', { skip }, async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-11-23T10:00:00Z') })
  const bodies = []
  const sender = newSender({ header, maxBytes: 1 << 17, warn: () => {}, transport: async (_, body) => {
    bodies.push(JSON.parse(body))
    return { status: 202, text: '{"rejected":[]}' }
  } })
  sender.start(target)
  sender.add(report('a'))
  t.mock.timers.setTime(Date.parse('2026-11-22T00:00:00Z'))
  sender.add(report('a'))
  assert.equal(await sender.flush(60_000), true)
  assert.equal(bodies.length, 1)
  assert.deepEqual(bodies[0].reports.map((r) => [r.count, r.first_at, r.last_at]),
    [[2, '2026-11-23T10:00:00.000Z', '2026-11-23T10:00:00.000Z']])
})

test('a serverless function that is frozen after flush has sent its report, and goes on when it is thawed', { skip: skip || process.platform !== 'linux' }, async () => {
  const sink = await newSink()
  const child = start(`${reported} init({ dsn: '$DSN' })
    const handle = async (where) => { console.log(where, '$KEY'); await flush(60_000); console.log('answer', where) }
    process.stdin.on('data', (name) => handle(String(name)))`, { sink })
  for (const name of ['one', 'two']) {
    child.stdin.write(name)
    await child.until(`answer ${name}`)
    assert.equal(sink.batches.length, name === 'one' ? 1 : 2)
    child.kill('SIGSTOP')
    while (!/^State:\tT/m.test(readFileSync(`/proc/${child.pid}/status`, 'utf8'))) await new Promise(setImmediate)
    child.kill('SIGCONT')
  }
  child.kill('SIGKILL')
  sink.stop()
})
