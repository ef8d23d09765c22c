// Runs the fixture runner against a local HTTP server: a case for each rule, with its exit code and its output.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test as nodeTest } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readBody, startServer } from '../shared/server.mjs'
import { main, readSuite } from './relay-fixture-run.mjs'

const program = fileURLToPath(new URL('relay-fixture-run.mjs', import.meta.url))
const isOld = parseInt(process.versions.node) < 20
const test = (name, f) => nodeTest(name, { skip: isOld && 'needs Node.js 20', timeout: 60_000 }, f)
const now = Date.parse('2026-08-21T12:00:00Z')
const later = '2026-09-01T00:00:00.000Z'

let server
let got = []
let answer
let directory

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'relay-fixture-run-'))
  server = await startServer(async (request, response) => {
    got.push({ method: request.method, url: request.url, headers: request.headers, raw: request.rawHeaders,
      body: String(await readBody(request)) })
    answer(request, response)
  })
})

after(async () => {
  await server.stop()
  rmSync(directory, { recursive: true })
})

const fixture = (n, members = {}) => ({ id: `fix_${n}`, name: `fixture ${n}`, type: 'invoice.paid', method: 'POST',
  body: { n }, expires_at: later, expect: { status: 200 }, ...members })

const suite = (fixtures, members = {}) => ({ format: 'relay.fixture-suite', version: 1, suite_id: 'fxs_1',
  exported_at: '2026-08-20T00:00:00.000Z', expires_at: later, fixtures, ...members })

let files = 0
// save writes a suite, or text, to a file and returns its name.
function save(content) {
  const name = join(directory, `${files++}.json`)
  writeFileSync(name, typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content))
  return name
}

// run returns the exit code and the lines of a run in this process. Without arguments it runs against the server.
async function run(content, { args = [], target = `${server.url}/hook?a=1`, respond, lookup } = {}) {
  got = []
  answer = respond ?? ((_, response) => response.end())
  const lines = []
  const out = (line) => lines.push(line)
  const file = content === undefined ? [] : [save(content)]
  const code = await main([...file, ...target ? ['--target', target] : [], ...args], {
    env: {}, stop: new AbortController().signal, out, err: out, lookup, now,
  })
  return { code, lines, text: lines.join('\n') }
}

const confirm = ['--confirm-test-target']
const runConfirmed = (content, options = {}) => run(content, { ...options, args: [...confirm, ...options.args ?? []] })

test('a request has the sanitized JSON and the identifiers, and nothing of a provider', async () => {
  const text = JSON.stringify(suite([fixture(1, { method: 'PUT' })]))
  const body = '{ "big": 12345678901234567890, "e": 1e400, "a": "é\\u00e9\\"}", "l": [1.0, -0, {"x": null}] }'
  const { code, lines } = await runConfirmed(text.replace('{"n":1}', body))
  assert.equal(code, 0)
  assert.match(lines[0], /^PASS fixture 1 200 \d+ ms$/)
  assert.deepEqual(lines.slice(1), ['1 passed, 0 failed'])
  const [request] = got
  assert.equal(`${request.method} ${request.url}`, 'PUT /hook?a=1')
  assert.equal(request.body, body, 'the text of numbers is kept')
  const { 'relay-fixture-run': id, ...headers } = request.headers
  assert.match(id, /^[0-9a-f]{16}$/)
  assert.deepEqual(headers, { host: new URL(server.url).host, 'content-type': 'application/json',
    'user-agent': 'relay-fixture-runner/1', 'relay-fixture-id': 'fix_1', 'relay-fixture-attempt': '1',
    'content-length': String(Buffer.byteLength(body)), connection: 'close' })
})

test('--repeat sends duplicates in a row, --reverse the suite from its end', async () => {
  const three = suite([fixture(1), fixture(2), fixture(3)])
  const order = () => got.map((x) => x.headers['relay-fixture-id'] + x.headers['relay-fixture-attempt']).join(' ')
  const { code, lines } = await runConfirmed(three, { args: ['--repeat', '3', '--reverse'] })
  assert.equal(code, 0)
  assert.equal(order(), 'fix_31 fix_32 fix_33 fix_21 fix_22 fix_23 fix_11 fix_12 fix_13')
  assert.match(lines[1], /^PASS fixture 3 \(2 of 3\) 200 \d+ ms$/)
  assert.equal(lines[9], '9 passed, 0 failed')
  assert.equal(new Set(got.map((x) => x.headers['relay-fixture-run'])).size, 1)
  await runConfirmed(three, { args: ['--repeat=1'] })
  assert.equal(order(), 'fix_11 fix_21 fix_31')
})

test('each repeated request is checked', async () => {
  const respond = (_, response) => response.writeHead(got.length === 2 ? 500 : 200).end()
  const { code, lines } = await runConfirmed(suite([fixture(1)]), { args: ['--repeat', '3'], respond })
  assert.equal(code, 1)
  assert.match(lines[1], /^FAIL fixture 1 \(2 of 3\) 500 \d+ ms: expected status 200$/)
  assert.equal(lines[3], '2 passed, 1 failed')
})

test('the answers that fail', async () => {
  const json = (value) => (_, response) => response.end(JSON.stringify(value))
  const redirect = (status) => (_, response) => response.writeHead(status, { location: '/elsewhere' }).end()
  const required = (...fields) => ({ expect: { status: 200, required: fields } })
  for (const [text, respond, members] of [
    ['404 # ms: expected status 200', (_, response) => response.writeHead(404).end()],
    ['301 # ms: a redirect, which is never followed', redirect(301)],
    ['302 # ms: a redirect, which is never followed', redirect(302), { expect: { status: 302 } }],
    ['304 # ms: a redirect, which is never followed', redirect(304)],
    ['200 # ms: /ok is missing', json({}), required({ pointer: '/ok' })],
    ['200 # ms: /constructor is missing', json({}), required({ pointer: '/constructor' })],
    ['200 # ms: /a/1 is missing', json({ a: [1] }), required({ pointer: '/a/0' }, { pointer: '/a/1' })],
    ['200 # ms: /a/01 is missing', json({ a: [1, 2] }), required({ pointer: '/a/01' })],
    ['200 # ms: /id: expected type string, found number', json({ id: 4711 }), required({ pointer: '/id', type: 'string' })],
    ['200 # ms: /id: expected type object, found array', json({ id: [] }), required({ pointer: '/id', type: 'object' })],
    ['200 # ms: /ok: expected true, found another boolean', json({ ok: false }), required({ pointer: '/ok', equals: true })],
    ['200 # ms: /ok: expected null, found string', json({ ok: 'private' }), required({ pointer: '/ok', equals: null })],
    ['200 # ms: /~1a~0: expected [1], found another array', json({ '/a~': [2] }), required({ pointer: '/~1a~0', equals: [1] })],
    ['200 # ms: the answer is not JSON, and fields are required', (_, response) => response.end('ok'), required({ pointer: '/ok' })],
    ['200 # ms: the answer is larger than 1 MiB', (_, response) => response.end('x'.repeat((1 << 20) + 1))],
    ['200 # ms: the answer was cut off', (request, response) => {
      response.writeHead(200, { 'content-length': 5 }).write('x', () => request.socket.destroy())
    }],
    [`- # ms: ${server?.url} closed the connection without an answer`, (request) => request.socket.destroy()],
  ]) {
    const { code, lines } = await runConfirmed(suite([fixture(1, members)]), { respond })
    assert.equal(code, 1, text)
    assert.equal(lines[0].replace(/\d+ ms/, '# ms'), `FAIL fixture 1 ${text}`)
    assert.equal(lines[1], '0 passed, 1 failed')
    assert.equal(got.length, 1, 'a redirect was followed')
    assert.doesNotMatch(lines.join(), /private|4711/)
  }
})

test('the answers that pass', async () => {
  const members = { expect: { status: 201, required: [
    { pointer: '/ok', equals: true }, { pointer: '/id', type: 'string' }, { pointer: '/items/1/a~1b', type: 'null' },
    { pointer: '/deep', equals: { b: [1], a: 'x' } }, { pointer: '', type: 'object' },
  ] } }
  const value = { ok: true, id: 'x', items: [0, { 'a/b': null }], deep: { a: 'x', b: [1] } }
  const respond = (_, response) => response.writeHead(201).end(JSON.stringify(value))
  assert.equal((await runConfirmed(suite([fixture(1, members)]), { respond })).code, 0)
  const large = (_, response) => response.end('x'.repeat(1 << 20))
  assert.equal((await runConfirmed(suite([fixture(1)]), { respond: large })).code, 0)
})

test('numbers are equal by their value, with all their digits', async () => {
  const check = async (equals, value) => {
    const content = JSON.stringify(suite([fixture(1, { expect: { status: 200, required: [{ pointer: '/a', equals: 'EQUALS' }] } })]))
    const respond = (_, response) => response.end(`{"a":${value}}`)
    const { code, lines } = await runConfirmed(content.replace('"EQUALS"', equals), { respond })
    return code === 0 || lines[0].replace(/^.* ms: /, '')
  }
  for (const [equals, value] of [
    ['0', '-0'], ['-0', '0'], ['0', '0.00e7'], ['1', '1.0'], ['1', '1e0'], ['1', '10E-1'], ['1.0', '0.1e+1'], ['120', '1.2e2'],
    ['9007199254740993', '9007199254740993'], ['-0.10', '-1e-1'], ['1e400', '10e399'], ['1e99999999999999999999', '1e99999999999999999999'],
    ['{"b":[1.0,"1.0","\\"1"]}', '{"b":[1,"1.0","\\u00221"]}'], [`1${'0'.repeat(100)}`, '1e100'], ['{"__proto__":1}', '{"__proto__":1.0}'],
    ['{"a":"x\\\\","b":2}', '{"b":2e0, "a":"x\\\\"}'],
  ]) assert.equal(await check(equals, value), true, `${equals} ${value}`)
  for (const [equals, value, found] of [
    ['9007199254740993', '9007199254740992', 'another number'], ['0', '1', 'another number'], ['1', '-1', 'another number'],
    ['1e400', '1e401', 'another number'], ['0', '1e-400', 'another number'], ['"1"', '1', 'number'], ['1', '"1"', 'string'],
    ['"1.0"', '"1"', 'another string'], ['1', '"#1e0"', 'string'], ['[1]', '["#1e0"]', 'another array'],
    ['{"x":9007199254740993}', '{"x":9007199254740992}', 'another object'],
  ]) assert.equal(await check(equals, value), `/a: expected ${equals}, found ${found}`)
  const start = Date.now()
  assert.equal(await check('1', `0.${'0'.repeat(900_000)}1`), '/a: expected 1, found another number')
  assert.ok(Date.now() - start < 5000)
})

test('--timeout bounds slow headers, a slow body and an answer without end', async () => {
  for (const [status, respond] of [
    ['-', () => {}],
    ['-', (request) => request.socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: ')],
    ['(200|-)', (_, response) => response.writeHead(200, { 'content-length': 5 }).write('x')],
    ['(200|-)', (_, response) => {
      const timer = setInterval(() => response.write('x'), 5)
      response.on('close', () => clearInterval(timer))
    }],
  ]) {
    const { code, lines } = await runConfirmed(suite([fixture(1)]), { respond, args: ['--timeout', '0.1'] })
    assert.equal(code, 1)
    assert.match(lines[0], new RegExp(`^FAIL fixture 1 ${status} \\d+ ms: (no answer|the answer did not end) within 0.1 s$`))
  }
})

test('a target that does not listen fails', async () => {
  const other = await startServer(() => {})
  await other.stop()
  const { code, lines } = await runConfirmed(suite([fixture(1)]), { target: other.url })
  assert.equal(code, 1)
  assert.match(lines[0], new RegExp(`^FAIL fixture 1 - \\d+ ms: nothing listens on ${other.url}$`))
})

test('wrong usage is refused, and nothing is sent', async () => {
  for (const [args, text, target] of [
    [[], /^nothing was sent: add --confirm-test-target to say that the target is a test system/],
    [[...confirm, '--fast'], /^the option --fast is unknown\n\nUsage:/], [[...confirm, 'b.json'], /^one file is run at a time/],
    [[...confirm, '--repeat', '0'], /^--repeat must be a whole number from 1 to 100$/],
    [[...confirm, '--repeat', '101'], /^--repeat must/], [[...confirm, '--repeat', '1.5'], /^--repeat must/],
    [[...confirm, '--repeat', '1e1'], /^--repeat must/], [[...confirm, '--repeat'], /^--repeat needs a value$/],
    [[...confirm, '--timeout', 'abc'], /^--timeout must be seconds from 0.1 to 120$/],
    [[...confirm, '--timeout', '0'], /^--timeout must/], [[...confirm, '--timeout', '121'], /^--timeout must/],
    [[...confirm, '--reverse', '--reverse'], /^--reverse is given twice$/], [[...confirm, '--reverse=1'], /takes no value$/],
    [confirm, /^--target <url> is missing/, ''],
  ]) {
    const { code, text: got } = await run(suite([fixture(1)]), { args, target })
    assert.equal(code, 2, args.join(' '))
    assert.match(got, text)
  }
  const { code, text } = await runConfirmed(undefined)
  assert.equal(code, 2)
  assert.match(text, /^the exported file is missing\n\nUsage:/)
  assert.equal(got.length, 0)
  assert.match((await run(undefined, { args: ['--help'] })).text, /^Usage: [^]*Exit codes: 0 all passed, 1 an assertion failed/)
})

test('expired, changed and oversized suites are refused, and nothing is sent', async () => {
  const one = (members) => suite([fixture(1, members)])
  const until = (expires_at) => suite([fixture(1, { expires_at })], { expires_at })
  const expect = (required) => one({ expect: { status: 200, required } })
  const damaged = (what) => new RegExp(`^the file was changed or is damaged: ${what}; export the suite again$`)
  for (const [content, text] of [
    [until('2026-08-20T09:30:00.000Z'), /^fixture 1 expired yesterday at 09:30 UTC; export the suite again$/],
    [until('2026-08-21T12:00:00.000Z'), /^fixture 1 expired today at 12:00 UTC/],
    [until('2026-07-01T00:00:00Z'), /^fixture 1 expired on 2026-07-01 at 00:00 UTC/],
    [suite([fixture(1), fixture(2, { expires_at: '2026-08-20T09:30:00Z' })], { expires_at: '2026-08-20T09:30:00Z' }),
      /^fixture 2 expired yesterday/],
    [suite([fixture(1)], { expires_at: '2026-10-01T00:00:00Z' }), damaged('expires_at is not that of the fixture .*')],
    [until('2026-12-31T00:00:00Z'), damaged('fixtures\\[0\\] expires too long after its export')],
    [suite([fixture(1)], { exported_at: '2026-08-23T00:00:00Z' }), damaged('exported_at is in the future')],
    [suite(Array.from({ length: 101 }, (_, i) => fixture(i))), /^the suite has 101 fixtures, at most 100 are run/],
    [suite([]), /^the suite has no fixtures$/], [' '.repeat((5 << 20) + 1), /^the file is larger than 5 MiB/],
    [one({ body: 'x'.repeat(256 << 10) }), /^fixtures\[0\].body is larger than 256 KiB$/],
    ['{', /^the file is not JSON; export the suite again$/], ['', /is not JSON/],
    ['['.repeat(1 << 20), /is not JSON/], [Buffer.from([0xff, 0x7b]), /is not JSON/],
    ['null', /^the file is no fixture suite/], ['[]', /no fixture suite/], [suite([], { format: 'x' }), /no fixture suite/],
    [suite([fixture(1)], { version: 2 }), /^the suite has another version than 1.*take the runner from \/tools/],
    [suite([fixture(1)], { headers: {} }), damaged('the suite has the unknown member headers')],
    [one({ headers: { 'stripe-signature': 'x' } }), damaged('fixtures\\[0\\] has the unknown member headers')],
    [JSON.stringify(one()).replace('"method"', '"id":"fix_2","method"'), damaged('fixtures\\[0\\] has id twice')],
    [suite([fixture(1), fixture(1)]), damaged('two fixtures have the same id')],
    [one({ id: 'fix_1\r\nx: y' }), damaged('fixtures\\[0\\].id is not valid')],
    [one({ method: 'GET / HTTP/1.1' }), damaged('fixtures\\[0\\].method is not valid')],
    [one({ name: undefined }), damaged('fixtures\\[0\\] has no name')], [one({ body: undefined }), damaged('.* has no body')],
    [one({ expires_at: 'never' }), damaged('fixtures\\[0\\].expires_at is not valid')],
    [one({ expect: { status: 99 } }), damaged('fixtures\\[0\\].expect.status is not valid')],
    [one({ expect: [] }), damaged('fixtures\\[0\\].expect is not an object')],
    [suite({}), damaged('fixtures is not a list')], [suite([1]), damaged('fixtures\\[0\\] is not an object')],
    [expect([{ pointer: 'ok' }]), damaged('fixtures\\[0\\].expect.required\\[0\\].pointer is not valid')],
    [expect([{ pointer: '/~2' }]), damaged('.*pointer is not valid')], [expect([{ pointer: '/a', type: 'int' }]), damaged('.*type is not valid')],
    [expect({}), damaged('.*required is not a list')], [expect(Array(21).fill({ pointer: '' })), damaged('.* more than 20 fields')],
    [expect([{ pointer: '/a', equals: 'x'.repeat(5000) }]), damaged('.*equals is too long')],
  ]) {
    const { code, text: lines } = await runConfirmed(content)
    assert.equal(code, 2, lines)
    assert.match(lines, text)
  }
  assert.equal(got.length, 0)
  const { code, text } = await run(undefined, { args: [...confirm, join(directory, 'none')] })
  assert.equal(code, 2)
  assert.match(text, /none cannot be read \(ENOENT\)$/)
  assert.match((await run(undefined, { args: [...confirm, directory] })).text, /cannot be read \(EISDIR\)$/)
})

test('the file that the service exports is read whole', () => {
  // A Go test compares what the service writes with this file.
  const file = readFileSync(new URL('../../features/fixtures/sanitise/testdata/suite.json', import.meta.url))
  const [first, second] = readSuite(file, Date.parse('2026-08-20T12:00:00Z'))
  assert.deepEqual({ ...first, body: String(first.body) }, { id: 'fix_1', name: 'invoice paid', method: 'POST',
    body: '{"n":1.50,"big":12345678901234567890}', expires: Date.parse('2026-08-22T10:00:00Z'), status: 201, required: [
      { pointer: '/ok', type: undefined, equals: 'true' }, { pointer: '/id', type: 'string' },
      { pointer: '/x', type: undefined }] })
  assert.deepEqual({ ...second, body: String(second.body) }, { id: 'fix_2', name: 'a <b> & c', method: 'PUT',
    body: '["<&>"]', expires: Date.parse('2026-08-21T10:00:00Z'), status: 200, required: [] })
})

test('a suite at its limits runs', async () => {
  const deep = '['.repeat(2000) + ']'.repeat(2000)
  const body = 'x'.repeat((256 << 10) - 2)
  const { code } = await runConfirmed(JSON.stringify(suite([fixture(1, { body }), fixture(2, { body: 'DEEP' })])).replace('"DEEP"', deep))
  assert.equal(code, 0)
  assert.equal(got[0].body.length, 256 << 10)
  assert.equal(got[1].body, deep)
})

test('targets that are not for tests are refused, and nothing is sent', async () => {
  const lookup = async (host) => [{ address: host === 'public.test' ? '93.184.215.14' : '169.254.169.254', family: 4 }]
  const aKey = 'AKIA' + 'IOSFODNN7EXAMPLE'
  for (const [target, text] of [
    ['http://user:hidden@localhost/', /has a user name or password; leave out what is before the @$/],
    [`http://localhost/${aKey}`, /^the target has a key in its path or query; use a test target that needs none$/],
    [`http://localhost/a%2F${aKey}`, /has a key/], [`http://localhost/?x=${aKey}`, /has a key/],
    ['http://localhost/?access_token=hidden', /has a key/], ['http://localhost/?api-key=hidden', /has a key/],
    ['http://localhost/#hidden', /has a fragment/], ['ftp://localhost/', /begins with ftp:/], ['nonsense', /is not a URL/],
    ['http://169.254.1.1/', /is link-local/], ['http://[fe80::1]/', /is link-local/], ['http://metadata.test/', /is link-local/],
    ['http://100.100.100.200/', /is link-local/], ['http://[2001:0:a9fe:a9fe::1]/', /is link-local/],
    ['http://8.8.8.8/', /is neither on this machine nor/], ['https://public.test/', /is neither on this machine nor/],
  ]) {
    const { code, text: lines } = await runConfirmed(suite([fixture(1)]), { target, lookup })
    assert.equal(code, 2, target)
    assert.match(lines, text)
    assert.doesNotMatch(lines, /hidden|AKIA/)
  }
  assert.equal(got.length, 0)
})

test('a target with a credential in its path or query is refused, an ordinary name is not', async () => {
  for (const rest of ['?authToken=x', '?secretKey=x', '?apiSecret=x', '?privateKey=x', '?userPassword=x', '?sessionId=x',
    '?bearer=x', '?pass=x', '?token[]=x', '?a[token]=x', '?token[0]=x', '?a%5Btoken%5D%5Beq%5D=x', '/;token=x', '/a;b=1;token=x/c',
    '/a%3Btoken=x', '?a=1;token=x', '?accessToken=x', '?accesstoken=x', '?apikey=x', '?API-Key=x', '?APIKey=x', '?key=x',
    '?session=x', '?SESSIONID=x', '?APIkey=x', '?PASSWord=x', '?%74oken=100%', '/;jsessionid=x', '?PHPSESSID=x', '?authkey=x',
    '/whsec_ab+cdEFGHijklmnopqrstuv', '?t%6Fken=x', '?user.tokens=x', '?token2=x', '?%zz;token=x',
    '?x=whsec_ab+cdEFGHijklmnopqrstuv', '?x=%73k_live_abcdefabcdef1234%zz', '/a%ff%73k_live_abcdefabcdef1234', '?%zzt%6Fken=x',
    '/a%3Btoken%3Dx', '?a%3Dtoken=x', '?api+key=x', '?token_value=x', '?secret_id=x', '?api_key_v2=x', '?APIkeyValue=x',
    '?SESSionId=x', '?pin=x', '?csrf=x', '?verification_code=x']) {
    const { code, lines } = await runConfirmed(suite([fixture(1)]), { target: `${server.url}/fx${rest}` })
    assert.equal(code, 2, rest)
    assert.match(lines[0], /^the target has a key in its path or query/, rest)
  }
  assert.equal(got.length, 0)
  for (const rest of ['?passenger=x', '?tokenize=x', '?monkey=x', '?keyboard=x', '?compass=x', '?token=', '?token', '/token',
    '/;token', '?author=x', '?design=x', '?id=x', '?value=x', '?session_count=3', '?CallSid=x', '?keys=x', '?token_type=x', '?pageToken=x', '?sortKey=x', '?publicKey=x',
    '?idempotencyKey=x', '?a[b]=token', '?=token', '?next_token=x', '?partitionKey=x', '?sort_key_id=5', '?page_token_value=5',
    '?primaryKeyId=5', '?token_id=5']) {
    const { code, text } = await runConfirmed(suite([fixture(1)]), { target: `${server.url}/fx${rest}` })
    assert.equal(code, 0, `${rest}: ${text}`)
  }
})

test('a name that leads elsewhere later (rebinding) is resolved once', async () => {
  let asked = 0
  const lookup = async () => [{ address: asked++ ? '8.8.8.8' : '127.0.0.1', family: 4 }]
  const { port } = new URL(server.url)
  const { code } = await runConfirmed(suite([fixture(1), fixture(2)]), { target: `http://name.test:${port}/?id=1`, lookup })
  assert.equal(code, 0)
  assert.equal(asked, 1)
  assert.deepEqual(got.map((x) => x.headers.host), Array(2).fill(`name.test:${port}`))
})

test('names from the file cannot write to the terminal', async () => {
  const { lines } = await runConfirmed(suite([fixture(1, { name: 'a\u001b[31m\nb\u202ec' })]))
  assert.match(lines[0], /^PASS a\[31mbc 200 \d+ ms$/)
})

// start runs the program as a process of its own.
async function start(args) {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (chunk) => { text += chunk })
  const [code] = await once(child, 'close')
  return { code, text }
}

test('the exit code is that of the process', async () => {
  const members = { expires_at: new Date(Date.now() + 86_400_000).toISOString(), exported_at: new Date().toISOString() }
  const content = save(suite([fixture(1, { expires_at: members.expires_at })], members))
  answer = (_, response) => response.writeHead(got.at(-1).url === '/ok' ? 200 : 500).end()
  const [passed, failed, refused] = await Promise.all([
    start([content, '--target', `${server.url}/ok`, ...confirm]), start([content, '--target', server.url, ...confirm]),
    start([content, '--target', server.url]),
  ])
  assert.deepEqual([passed.code, failed.code, refused.code], [0, 1, 2])
  assert.match(passed.text, /^PASS fixture 1 200 \d+ ms\n1 passed, 0 failed\n$/)
})

nodeTest('Node.js 18 gets one line', { skip: !isOld && 'this Node.js is newer' }, async () => {
  assert.deepEqual(await start([]), { code: 2, text: `this tool needs Node.js 20 or newer; this is ${process.version}\n` })
})
