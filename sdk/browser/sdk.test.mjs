// The SDK in Chromium: a page with a strict Content Security Policy, and a sink of another origin.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { key, masked } from '../js/test/run.mjs'
import { newSink } from '../js/test/sink.mjs'
import { browserPath, openBrowser } from './chromium.mjs'
import { patience } from './dashboard.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'

let browser, server, origin, sdk, esbuild
const scripts = new Map() // of each page, by its name
let readmePage // what README.md shows for a page without a bundler

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found')
  const { buildPackage } = await import('../js/build.mjs')
  esbuild = await import('esbuild')
  const directory = mkdtempSync(path.join(tmpdir(), 'eventrelay-sdk-'))
  await buildPackage(directory, '0.1.0-test')
  sdk = readFileSync(path.join(directory, 'dist/browser.js'))
  rmSync(directory, { recursive: true })
  browser = await openBrowser()
  server = http.createServer(answer)
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  origin = `http://127.0.0.1:${server.address().port}`
})

after(async () => {
  await browser?.close()
  server?.closeAllConnections()
  server?.close()
})

function answer(req, res) {
  const { pathname, searchParams } = new URL(req.url, origin)
  const [, name, file] = pathname.split('/')
  const send = (type, body, headers = {}) => res.writeHead(200, { 'content-type': type, ...headers }).end(body)
  if (pathname === '/browser.js') return send('text/javascript', sdk)
  if (name === 'readme') return send('text/html', readmePage)
  if (file === 'sdk.js') return send('text/javascript', sdk)
  if (file === 'app.js') return send('text/javascript', scripts.get(name))
  if (file === 'api') return send('application/json', JSON.stringify({ key }))
  send('text/html', '<!doctype html><title>page</title><script type="module" src="app.js"></script>',
    { 'content-security-policy': `default-src 'none'; script-src 'self'; connect-src 'self' ${searchParams.get('connect') ?? ''}` })
}

// open opens a page with a script that starts the SDK, as change makes it, and returns it with the texts of its console.
async function open(name, sink, script, connect = sink.origin, options = {}, change = (code) => code) {
  const given = JSON.stringify({ dsn: sink.dsn, responseSampleRate: 1, ...options })
  const code = `import * as sdk from './sdk.js'; const key = '${key.slice(0, 8)}' + '${key.slice(8)}'; sdk.init(${given})\n${script}`
  scripts.set(name, await change(code))
  const page = await browser.newPage()
  page.setDefaultTimeout(patience)
  const lines = []
  const errors = []
  page.on('console', (message) => lines.push(message.text()))
  page.on('pageerror', (error) => errors.push(String(error)))
  await page.goto(`${origin}/${name}/?connect=${encodeURIComponent(connect)}`)
  return { page, lines, errors }
}

// until waits for a condition of what another process does.
async function until(condition, what) {
  for (const end = performance.now() + patience; !condition();) {
    if (performance.now() > end) throw new Error(`there is never ${what()}`)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('with a strict policy the console is masked, and lines, errors and responses are reported with their place', { skip }, async () => {
  const sink = await newSink()
  const { page, lines } = await open('strict', sink, `
    document.addEventListener('securitypolicyviolation', (event) => console.log('violation ' + event.blockedURI))
    function charge() { console.error('a ' + key, { token: key }) }
    charge()
    for (const level of ['debug', 'info', 'log', 'warn', 'dir', 'group', 'groupCollapsed', 'trace']) console[level](level + ' ' + key)
    console.table([{ token: key }]); console.assert(false, 'failed ' + key); console.assert(true, key)
    Promise.reject(new Error('rejected ' + key))
    setTimeout(() => { throw new Error('thrown ' + key) })
    const body = await (await fetch('api?q=' + key)).json()
    console.log('whole ' + (body.key === key))`)
  await until(() => ['log', 'error', 'response'].every((type) => sink.reports().some((r) => r.type === type)) && sink.reports().length >= 14,
    () => `a report of each: ${JSON.stringify(sink.reports())}`)
  await page.close()
  sink.stop()
  assert.ok(lines.includes('whole true') && ['debug', 'dir', 'group', 'groupCollapsed', 'trace'].every((m) => lines.includes(`${m} ${masked}`)) && lines.includes(`failed ${masked}`) && lines.some((l) => l.startsWith(`a ${masked}`)), lines.join('\n'))
  // What the browser itself prints of an uncaught error is not masked, as README.md says of Node.js.
  assert.deepEqual(lines.filter((line) => line.includes(key) || line.includes('violation')), [])
  assert.deepEqual(sink.reports().filter((r) => r.where.function === 'charge').map((r) => [r.where.logger, r.where.file, r.where.line]),
    [['console.error', 'strict/app.js', 4]])
  assert.deepEqual(sink.reports().filter((r) => r.type === 'response').map((r) => r.where),
    [{ method: 'GET', path: '/strict/api', status: 200, content_type: 'application/json' }])
  assert.ok(sink.bodies.every((body) => body.length <= 60_000 && !body.includes(key.slice(0, 12))))
})

test('bundled with the page and minified, lines and errors are reported with their place', { skip }, async () => {
  const sink = await newSink()
  const bundled = async (code) => {
    const plugin = { name: 'sdk', setup: ({ onResolve, onLoad }) => {
      onResolve({ filter: /^\.\/sdk\.js$/ }, ({ path: name }) => ({ path: name, namespace: 'sdk' }))
      onLoad({ filter: /.*/, namespace: 'sdk' }, () => ({ contents: sdk.toString() }))
    } }
    const { outputFiles } = await esbuild.build({ stdin: { contents: code }, bundle: true, minify: true, format: 'esm', write: false, plugins: [plugin] })
    return outputFiles[0].text
  }
  const { page } = await open('bundled', sink, `
    function logIt() { console.warn('charging with ' + key) }
    logIt(); setTimeout(() => { throw new Error('thrown ' + key) })`, sink.origin, {}, bundled)
  await until(() => sink.reports().length >= 2, () => `a report of each: ${JSON.stringify(sink.reports())}`)
  await page.close()
  sink.stop()
  const lines = scripts.get('bundled').split('\n')
  const calls = sink.reports().map(({ type, where: { file, line, column } }) => [type, file, /^[\w ]+/.exec(lines[line - 1]?.slice(column - 1))?.[0]])
  assert.deepEqual(calls.sort(), [['error', 'bundled/app.js', 'new Error'], ['log', 'bundled/app.js', 'warn']])
})

test('a page without a bundler that is made as README.md says reports the test key', { skip }, async () => {
  const sink = await newSink()
  const [, code] = /```html\n([^]*?)```/.exec(readFileSync(new URL('../js/README.md', import.meta.url), 'utf8'))
  readmePage = `<!doctype html><meta charset="utf-8">${code.replace('https://…', sink.dsn)}`
  const page = await browser.newPage()
  const errors = []
  page.on('pageerror', (error) => errors.push(String(error)))
  await page.goto(`${origin}/readme/`)
  await until(() => sink.reports().length || errors.length, () => 'a report')
  await page.close()
  sink.stop()
  assert.deepEqual(errors, [])
  assert.deepEqual(sink.reports().map((r) => [r.rule, r.where.logger]), [['relay-test-key', 'sendTest']])
  assert.equal(sink.batches[0].environment, 'production')
})

for (const [status, sent, warns] of [[400, 2, true], [401, 1, true], [403, 2, true], [413, 2, true], [429, 3, false]]) {
  test(`a ${status} is seen as a ${status}`, { skip }, async () => {
    const sink = await newSink([status])
    const { page, lines } = await open(`status${status}`, sink, `
      console.log('first ' + key); await sdk.flush(60_000)
      console.log('second ' + key); await sdk.flush(60_000); console.log('ended')`)
    await until(() => lines.includes('ended'), () => `an end: ${lines}`)
    await page.close()
    sink.stop()
    assert.equal(sink.requests, sent)
    assert.equal(lines.includes(`eventrelay: the relay refuses reports: status ${status}`), warns, lines.join('\n'))
    const ids = new Set(sink.bodies.map((body) => JSON.parse(body).id))
    assert.equal(ids.size, status === 429 ? 2 : sent, 'only after a 429 the same batch is sent again')
    const dropped = sink.batches.reduce((n, b) => n + (b.dropped?.send_failed ?? 0), 0)
    assert.equal(dropped, [401, 429].includes(status) ? 0 : 1)
  })
}

test('a policy that forbids the relay changes nothing but the reports', { skip }, async () => {
  const sink = await newSink()
  const { page, lines, errors } = await open('forbidden', sink, `console.log('a ' + key); await sdk.flush(); console.log('ended')`, '')
  await until(() => lines.includes('ended'), () => `an end: ${lines}`)
  await page.close()
  sink.stop()
  assert.ok(lines.includes(`a ${masked}`))
  assert.deepEqual([errors, sink.requests], [[], 0])
})

test('a page that is left sends what waits as a beacon of at most 60,000 bytes', { skip }, async () => {
  const sink = await newSink()
  const { page } = await open('left', sink, `
    for (let i = 0; i < 300; i++) {
      const error = new Error('failed ' + key)
      error.stack = 'Error: ' + error.message + '\\n    at f (' + location.origin + '/' + 'x'.repeat(240) + i + '.js:1:1)'
      dispatchEvent(new ErrorEvent('error', { error }))
    }
    location.href = '/next/'`, sink.origin, { flushInterval: 3_600_000, queueSize: 1000 })
  scripts.set('next', '')
  await until(() => sink.modes.includes('no-cors'), () => `a beacon: ${sink.modes}`)
  await page.close()
  sink.stop()
  const beacon = sink.bodies[sink.modes.indexOf('no-cors')]
  assert.ok(beacon.length <= 60_000 && JSON.parse(beacon).reports.length === 50, `${beacon.length} bytes`)
  assert.ok(sink.bodies.every((body) => body.length <= 60_000))
})
