// What the SDK sends: no part of a secret beyond its mask, for each rule, and nothing that docs/design/reports.md has not.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { caught, skip } from './test/run.mjs'
import { secrets } from './test/secrets.mjs'

// checkPieces checks that no eight characters of a secret in a row are in a text, but those of its mask, and of a prefix
// that is also in the id of a rule ("tskey-client-") or begins other secrets ("_secret_").
function checkPieces(text, what) {
  const ids = secrets().map(({ rule, prefixes }) => [rule, ...prefixes]).join()
  for (const { rule, secret, masked } of secrets()) {
    for (let i = 0; i + 8 <= secret.length; i++) {
      const piece = secret.slice(i, i + 8)
      assert.ok(masked.includes(piece) || ids.includes(piece) || !text.includes(piece), `${what} has ${piece} of a secret of ${rule}, whose mask is ${masked}`)
    }
  }
}

test('of a secret of each rule nothing but the mask is written or sent: lines, errors, responses, and their places', { skip }, async () => {
  const { out, err, bodies, reports, status } = await caught(`
    import vm from 'node:vm'; import { checkResponse, flush, init } from './src/index.js'; import { extra, secrets } from './test/secrets.mjs'
    init({ dsn: '$DSN', queueSize: 10_000, rules: { extra } })
    process.on('uncaughtException', () => {})
    for (const { text } of secrets()) {
      const call = vm.runInThisContext('(log, text) => { const o = { [text]() { log(text) } }; o[text]() }', { filename: '/app/' + text + ' x/y.js' })
      call(console.log, text)
      call((message) => process.emit('uncaughtExceptionMonitor', new Error(message + '\\\\n    at ' + text + ' (/app/' + text + ' x:1:1)')), text)
      checkResponse(JSON.stringify({ a: text }), { method: 'GET', path: '/' + text + ' /?q=' + text, status: 200, contentType: 'text/html; a=' + text })
    }
    await flush(60_000)`)
  assert.equal(status, 0, err)
  checkPieces(bodies, 'a report')
  checkPieces(out + err, 'the output')
  for (const { rule, masked, hasFingerprint } of secrets()) {
    const types = reports.filter((r) => r.rule === rule && r.masked === masked && hasFingerprint === ('fp1' in r)).map((r) => r.type)
    for (const type of rule === 'google-api-key' ? ['log', 'error'] : ['log', 'error', 'response']) {
      assert.ok(types.includes(type), `${type} of ${rule} ${masked} is not reported: ${types}`)
    }
  }
})

test('what is around a secret is not sent: texts, messages, headers, queries, cookies, paths outside of the application', { skip }, async () => {
  const { bodies, reports } = await caught(`
    import http from 'node:http'; import vm from 'node:vm'; import { flush } from './src/index.js'
    import { init } from './src/index.js'; init({ dsn: '$DSN', environment: '$KEY', release: '$KEY' })
    const log = vm.runInThisContext('(text) => console.log(text)', { filename: '/hidden-home/../hidden-home/a.js' })
    log('hidden-line $KEY hidden-end')
    eval('console.log("hidden-code $KEY")')
    await import('data:text/javascript,console.log(%22hidden-data $KEY%22)')
    process.on('uncaughtException', () => {})
    process.emit('uncaughtExceptionMonitor', new TypeError('hidden-message $KEY\\n    at hidden-function (/hidden-file:1:1)', { cause: 'hidden-cause' }))
    const server = http.createServer((req, res) => {
      res.setHeader('set-cookie', 'hidden-cookie=1'); res.setHeader('hidden-header', '1'); res.setHeader('content-type', 'text/plain')
      res.end('hidden-body $KEY')
    }).listen(0, '127.0.0.1', async () => {
      await (await fetch('http://127.0.0.1:' + server.address().port + '/p?hidden-query=1', { headers: { cookie: 'hidden-cookie=2' } })).text()
      setImmediate(() => setImmediate(async () => { await flush(); process.exit() }))
    })`)
  assert.deepEqual([...new Set(reports.map((r) => r.type))].sort(), ['error', 'log', 'response'])
  assert.ok(!/hidden-(?!home)/.test(bodies), bodies)
  assert.ok(!bodies.includes('environment') && !bodies.includes('release'), bodies)
})
