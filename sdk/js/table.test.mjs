// Each row of the tables of README.md: what is masked, what is only reported, and what is not caught.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { inPage } from './test/page.mjs'
import { caught, key, masked, reported, runTests, skip } from './test/run.mjs'

// What others do to the standard output: jest's console, and pm2's write in cluster mode.
const replaced = `
  import fs from 'node:fs'; import { Console } from 'node:console'
  globalThis.console = new Console(process.stdout, process.stderr)
  process.stdout.write = (function (before) { return (chunk) => { fs.writeSync(1, chunk); return Boolean(before) } })(process.stdout.write)
`
// A stream for winston whose text the SDK does not see.
const unseen = `
  import winston from 'winston'; import fs from 'node:fs'; import { Writable } from 'node:stream'; import { relayFormat } from './src/winston.js'
  const stream = new Writable({ write(chunk, encoding, done) { fs.writeSync(1, chunk); done() } })
  const logger = (...formats) => winston.createLogger({ format: winston.format.combine(...formats), transports: [new winston.transports.Stream({ stream })] })
`
const thread = "import { Worker } from 'node:worker_threads'; "
const child = "import { execFileSync } from 'node:child_process'; execFileSync(process.execPath, ['-e', `console.log('${'$KEY'}')`], { stdio: 'inherit' })"
const preload = { env: { NODE_OPTIONS: `--import=${new URL('src/register.js', import.meta.url)}` }, register: false }

// Code whose output has the mask, and no key; each is reported.
const maskedRows = {
  '`console` of Node.js': "console.log('a $KEY é'); console.error({ deep: ['$KEY'] }); console.log('%s and %o', '$KEY', { a: '$KEY' })",
  'the standard streams': [
    "process.stdout.write('$KEY\\n'); process.stderr.write('$KEY\\n', 'utf8', () => {})",
    "process.stdout.write(Buffer.from('ÿ$KEY\\n', 'latin1')); process.stdout.write(new Uint8Array(Buffer.from('$KEY')))",
    "process.stdout.write('$KEY\\n', 'ucs2'); process.stderr.write('$KEY\\n', 'UTF-16LE')",
    "process.stdout.end('$KEY\\n'); process.stderr.end(Buffer.from('$KEY\\n'))",
    "process.stdout.write(Buffer.from('$KEY\\n').toString('hex'), 'hex'); process.stderr.write(Buffer.from('$KEY').toString('base64'), 'base64')",
  ],
  'pino': [
    "import pino from 'pino'; pino().info({ token: '$KEY' }, 'x')",
    "import pino from 'pino'; import { pinoHooks } from './src/pino.js'; " +
      "pino({ hooks: pinoHooks }, pino.destination({ fd: 1, sync: true })).child({ a: '$KEY' }).info('b $KEY')",
  ],
  'winston': [
    "import winston from 'winston'; winston.createLogger({ transports: [new winston.transports.Console()] }).info('$KEY')",
    unseen + "logger(winston.format.json(), relayFormat()).info('a', { deep: { token: '$KEY' } })",
    unseen + "const f = function () { logger(winston.format.json(), relayFormat()).info('a', { all: arguments }) }; f('$KEY')",
  ],
  'warnings of Node.js': "process.emitWarning('$KEY')",
  'worker threads': thread + "new Worker(`console.log('${'$KEY'}')`, { eval: true })",
  'child processes with the SDK': { code: child, ...preload },
  'a stream that was replaced, as jest and pm2 do': `${replaced}; import { init } from './src/index.js'; init({ dsn: '$DSN' }); console.log('$KEY')`,
  'two copies of the package': `
    import { cpSync, mkdtempSync, rmSync } from 'node:fs'; import { tmpdir } from 'node:os'
    const copy = mkdtempSync(tmpdir() + '/sdk-'); cpSync('src', copy, { recursive: true })
    const other = await import(copy + '/index.js'); rmSync(copy, { recursive: true })
    other.init({ dsn: '$DSN' }); console.log('$KEY')`,
  'the rest of a key in two writes': async () => {
    const { out, reports } = await caught("const k = '$KEY'; process.stdout.write('a ' + k.slice(0, 20)); process.stdout.write(k.slice(20) + ' b\\n')")
    assert.equal(out, `a ${key.slice(0, 20)}*** b\n`)
    assert.equal(reports.length, 1)
  },
  'the console of browsers': async () => {
    const { value, reports } = await inPage("console.log('$KEY', { a: ['$KEY'] }, new Error('$KEY')); console.error(new Error('a', { cause: new Error('b', { cause: new Error('$KEY') }) })); await sdk.flush(); done(lines)")
    assert.deepEqual([value[0][1], value[0][2]], [masked, { a: [masked] }])
    assert.match(value[1][1], /^Error: a\n[^]*\nCaused by: Error: b\n[^]*\nCaused by: Error: sk_live_\*\*\*5vX7\n/)
    assert.ok(reports.length && !JSON.stringify(value).includes(key))
  },
}

// server is code of a server that answers with a key, and asks it once.
const server = `import http from 'node:http'; ${reported}
  const sent = reported(1)
  const server = http.createServer((req, res) => { res.setHeader('content-type', 'application/json'); res.end('{"a":"$KEY"}') })
  server.listen(0, '127.0.0.1', async () => { await get(server, '/a'); await sent; await flush(); process.exit() })`

// Code that reports of a type.
const reportedRows = {
  'an uncaught error': ["throw new Error('$KEY')", "setTimeout(() => { throw new Error('a', { cause: new Error('$KEY') }) })",
    "const error = new Error('a'); error.config = { headers: { authorization: '$KEY' } }; throw error",
    "console.log('$KEY'); throw new Error('$KEY')"],
  'a rejected promise that nothing handles': ["Promise.reject(new Error('$KEY'))",
    "process.on('unhandledRejection', () => {}); Promise.reject(new Error('$KEY'))",
    "process.once('unhandledRejection', () => Promise.reject(new Error('$KEY'))); Promise.reject(new Error('a'))"],
  'errors of browsers': async () => {
    const { reports } = await inPage(`
      for (const [type, member] of [['error', 'error'], ['unhandledrejection', 'reason']]) {
        const event = new Event(type); event[member] = new Error(type + ' $KEY'); listeners.dispatchEvent(event)
      }
      await sdk.flush(); done(0)`)
    assert.deepEqual(reports.map((r) => [r.type, r.count]), [['error', 2]])
  },
  'responses of HTTP servers': { code: server, type: 'response' },
  'responses to `fetch` in browsers': async () => {
    const { reports } = await inPage(`
      await (await fetch('/api/me')).text(); while (!requests.length) await sdk.flush(); done(0)`)
    assert.deepEqual(reports.map((r) => [r.type, r.where.path]), [['response', '/api/me']])
  },
}

// pem is code of a private key and its lines.
const pem = "import { generateKeyPairSync } from 'node:crypto'; " +
  "const lines = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).split('\\n'); "

// Code whose output has the key.
const unmaskedRows = {
  '`fs.writeSync` and the like on a file descriptor': "import fs from 'node:fs'; fs.writeSync(1, '$KEY\\n')",
  '`pino.destination` without the hook': "import pino from 'pino'; pino(pino.destination({ fd: 1, sync: true })).info('$KEY')",
  'transports of pino, such as `pino-pretty`, and the logger of Fastify with one': async () => {
    const code = "import pino from 'pino'; import { pinoHooks } from './src/pino.js'; setTimeout(() => {}, 1000); " +
      "pino({ transport: { target: 'pino/file' }, ...(process.argv[1] === 'hooks' && { hooks: pinoHooks }) }).info('$KEY')"
    const [plain, hooked] = [await caught(code), await caught(code, { args: ['hooks'] })]
    assert.ok(plain.out.includes(key), plain.out + plain.err)
    assert.ok(hooked.out.includes(masked) && !hooked.out.includes(key), hooked.out + hooked.err)
  },
  'a logger made before `init`': {
    code: "import pino from 'pino'; const log = pino(); const { init } = await import('./src/index.js'); init({ dsn: '$DSN' }); log.info('$KEY')",
    register: false,
  },
  'a winston format after `relayFormat` that adds text': unseen +
    "logger(relayFormat(), winston.format((info) => ({ ...info, later: '$KEY' }))(), winston.format.json()).info('a')",
  'a stream that was replaced after `init`': `${replaced}; console.log('$KEY')`,
  'the first part of a key in two writes': async () => {
    const { out } = await caught("const k = '$KEY'; process.stdout.write(k.slice(0, 20)); process.stdout.write(k.slice(20))")
    assert.ok(out.startsWith(key.slice(0, 20)), out)
  },
  'a private key that is written line by line': async () => {
    const whole = await caught(`${pem} console.log(lines.join('\\n'))`)
    assert.match(whole.out, /^-----BEGIN \*\*\*\n+$/)
    const { out } = await caught(`${pem} lines.forEach((line) => console.log(line))`)
    assert.match(out, /^[A-Za-z0-9+/]{64}$/m)
  },
  'the rest of a private key without its first line': async () => {
    const { out } = await caught(`${pem} console.log(lines.slice(2).join('\\n'))`)
    assert.match(out, /^[A-Za-z0-9+/]{64}$/m)
  },
  'an RSA or symmetric JSON Web Key that begins with private members, unless it is JSON': async () => {
    const { out } = await caught(`import { generateKeyPairSync } from 'node:crypto'
      const jwk = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })
      const sorted = Object.fromEntries(Object.entries(jwk).sort())
      console.log(sorted); console.log(jwk, JSON.stringify(jwk), JSON.stringify(sorted))`)
    assert.equal(out.match(/\bd["']?: ?["'][\w-]{340}/g).length, 1, out)
  },
  'a few lines of a private key': async () => {
    const { out } = await caught(`import { generateKeyPairSync } from 'node:crypto'
      const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' })
      console.dir({ pem }, { maxStringLength: 300 })`)
    assert.match(out, /^ +'[A-Za-z0-9+/]{64}\\n' \+$/m)
  },
  'labels of `console.count` and `console.time` in browsers': async () => {
    const { value, reports } = await inPage("console.count('$KEY'); console.time('$KEY'); await sdk.flush(); done({ labels: lines.map((l) => l[1]) })")
    assert.deepEqual([value.labels, reports], [[key, key], []])
  },
  'other values in the console of browsers': async () => {
    const { value, reports } = await inPage(`
      class Token { value = '$KEY' }
      console.log(new Map([['a', '$KEY']]), new Set(['$KEY']), new Token(), { ['$KEY']: 1 }, { a: { a: { a: { a: { a: { a: '$KEY' } } } } } })
      const [, map, set, token, names, deep] = lines[0]
      await sdk.flush(); done([map.get('a'), ...set, token.value, ...Object.keys(names), deep.a.a.a.a.a.a])`)
    assert.deepEqual([value, reports], [Array(5).fill(key), []])
  },
  'what Node.js prints of an uncaught error': "throw new Error('$KEY')",
  'child processes without the SDK': child,
  'names and errors of tests under `node --test`': async () => {
    const { out } = await runTests("require('node:test')('a $KEY', () => {})")
    assert.ok(out.includes(key), out)
  },
  'compressed responses in other codings, or of more than 256 KiB when decompressed': async () => {
    const { batches } = await caught(`import http from 'node:http'; import zlib from 'node:zlib'; ${reported}; init({ dsn: '$DSN' })
      const long = zlib.gzipSync('$KEY ' + ' '.repeat(1 << 18))
      const server = http.createServer((req, res) => {
        if (req.url === '/long') res.writeHead(200, { 'content-encoding': 'gzip' }).end(long)
        else res.writeHead(200, { 'content-encoding': 'dcz' }).end('$KEY')
      }).listen(0, '127.0.0.1', async () => {
        const load = (path) => new Promise((f) => http.get({ port: server.address().port, path }, (res) => res.on('end', f).resume()))
        await load('/long'); await load('/'); setTimeout(async () => { console.log('$KEY'); await flush(); process.exit() }, 100)
      })`)
    const types = batches.flatMap((b) => b.reports.map((r) => r.type))
    assert.deepEqual([types, batches.reduce((n, b) => n + (b.dropped?.sampled ?? 0), 0)], [['log'], 2])
  },
  'HTTP/2 servers': async () => {
    const { out, reports } = await caught(`import http2 from 'node:http2'; ${reported}; const sent = reported(1)
      const server = http2.createServer((req, res) => { res.setHeader('content-type', 'application/json'); res.end('{"a":"$KEY"}') })
      server.listen(0, '127.0.0.1', () => {
        const session = http2.connect('http://127.0.0.1:' + server.address().port); const stream = session.request({ ':path': '/' })
        let text = ''; stream.setEncoding('utf8').on('data', (d) => { text += d }).on('end', async () => {
          session.close(); server.close(); console.log(text.length); console.log('$KEY'); await sent; await flush()
        })
      })`)
    assert.match(out, new RegExp(`^${JSON.stringify({ a: key }).length}\n`))
    assert.deepEqual(reports.map((r) => r.type), ['log'])
  },
  'edge runtimes': async () => { // no modules of Node.js, and no page
    const { out, reports } = await caught(`
      globalThis.fetch = ((plain) => async (url, ...rest) => String(url).includes('/api/dsn_') ? plain(url, ...rest)
        : new Response('{"a":"$KEY"}', { headers: { 'content-type': 'application/json' } }))(globalThis.fetch)
      const { init, flush } = await import('./src/browser.js'); init({ dsn: '$DSN', responseSampleRate: 1 })
      const text = await (await fetch('http://a.example/')).text()
      console.log('$KEY'); await flush(); process.stdout.write(String(text.length))`, { register: false })
    assert.equal(out, `${masked}\n${JSON.stringify({ a: key }).length}`)
    assert.deepEqual(reports.map((r) => r.type), ['log'])
  },
}

const checks = {
  'What is masked': [maskedRows, ({ out, err, reports, bodies, status }) => {
    assert.equal(status, 0, err)
    const text = (out + err).replaceAll('\0', '') // of UTF-16 the ASCII
    assert.ok(text.includes(masked), text)
    assert.ok(!(text + bodies).includes(key.slice(0, 12)), text)
    assert.ok(reports.length >= 1 && reports.every((r) => r.type === 'log' && r.rule === 'stripe-secret-live'))
  }],
  'What is reported only': [reportedRows, ({ reports, out, err }, { type = 'error' }) => {
    assert.ok(reports.some((r) => r.type === type && r.masked === masked), JSON.stringify(reports) + out + err)
  }],
  'What is not masked': [unmaskedRows, ({ out, err }) => assert.ok((out + err).includes(key), out + err)],
}

// rowsOf returns the first cells of the table below a heading.
function rowsOf(heading) {
  const [, text] = readFileSync(new URL('README.md', import.meta.url), 'utf8').split(`\n## ${heading}\n`)
  return [...text.split('\n## ')[0].matchAll(/^\| (.*?) \|/gm)].map((m) => m[1]).filter((cell) => cell !== 'Where')
}

for (const [heading, [cases, check]] of Object.entries(checks)) {
  describe(heading, { concurrency: 2, skip }, () => {
    test('each row is here', () => assert.deepEqual(rowsOf(heading), Object.keys(cases)))
    for (const [row, given] of Object.entries(cases)) {
      test(row, typeof given === 'function' ? given : async () => {
        for (const one of [given].flat()) {
          const { code = one, ...options } = one
          check(await caught(code, options), options)
        }
      })
    }
  })
}
