// The SDK of browsers, with stand-ins for what a page has and Node.js has not.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { inPage } from './test/page.mjs'
import { key, masked, skip } from './test/run.mjs'

test('five levels of the console are masked: strings, objects, arrays, errors; nothing of the page is changed', { skip }, async () => {
  const { value, reports } = await inPage(`
    const shared = { deep: { token: '$KEY' }, get bad() { throw new Error('no') }, same: 1 }; shared.self = shared
    for (const level of ['debug', 'error', 'info', 'log', 'warn']) console[level]('a $KEY', 7)
    console.log(shared, ['$KEY'], new Error('b $KEY')); console.log({ plain: 1 })
    const [object, list, error] = lines[5].slice(1)
    await sdk.flush()
    done({ levels: lines.slice(0, 5), token: object.deep.token, list, error, kept: shared.deep.token.length })`)
  for (const line of value.levels) assert.deepEqual(line.slice(1), [`a ${masked}`, 7])
  assert.equal(value.token, masked)
  assert.deepEqual(value.list, [masked])
  assert.ok(value.error.includes(masked) && !value.error.includes(key))
  assert.equal(value.kept, key.length)
  assert.deepEqual([...new Set(reports.map((r) => r.where.logger))].sort(),
    ['console.debug', 'console.error', 'console.info', 'console.log', 'console.warn'])
})

test('errors are masked whatever their stack and their causes are, and reported when nothing catches them', { skip }, async () => {
  const { value, reports } = await inPage(`
    const loop = { count: 1n, deep: { token: 'b $KEY' } }; loop.deep.loop = loop
    const [getter, frames] = [new Error('a $KEY'), new Error('c $KEY')]
    Object.defineProperty(getter, 'cause', { get() { throw new Error('no') } })
    frames.stack = 'load@http://page.example/app.js:1:2' // as in Firefox and Safari
    for (const error of [getter, new Error('b', { cause: loop }), frames]) console.error(error)
    listeners.dispatchEvent(Object.assign(new Event('error'), { error: frames }))
    await sdk.flush(); done(lines.map(([, error]) => String(error)))`)
  for (const [i, letter] of ['a', 'b', 'c'].entries()) {
    assert.ok(value[i].includes(`${letter} ${masked}`) && !value[i].includes(key), value[i])
  }
  assert.equal(reports.filter((r) => r.type === 'error').length, 1)
})

test('traces, tables, groups and the like are masked; assertions only if they fail', { skip }, async () => {
  const { value, reports } = await inPage(`
    const methods = ['dir', 'dirxml', 'group', 'groupCollapsed', 'table', 'trace']
    for (const method of methods) console[method]('a $KEY', [{ token: '$KEY' }])
    console.assert(false, 'b $KEY', { token: '$KEY' }); console.assert(true, 'c $KEY')
    await sdk.flush(); done(lines)`)
  const methods = ['dir', 'dirxml', 'group', 'groupCollapsed', 'table', 'trace']
  for (const [i, method] of methods.entries()) assert.deepEqual(value[i], [method, `a ${masked}`, [{ token: masked }]])
  assert.deepEqual(value.slice(methods.length), [['assert', false, `b ${masked}`, { token: masked }], ['assert', true, `c ${key}`]])
  assert.deepEqual(reports.map((r) => [r.where.logger, r.count]).sort(), ['assert', ...methods].map((m) => [`console.${m}`, 2]))
})

test('responses of the page\'s origin are read, also errors, and given to the page whole', { skip }, async () => {
  const { value, reports } = await inPage(`
    const texts = []
    for (const url of ['/api/me?q=1', 'http://other.example/x']) texts.push(await (await fetch(url)).text())
    while (!requests.length) { await new Promise((resolve) => setTimeout(resolve, 10)); await sdk.flush() }; done(texts.map((t) => t.length))`)
  assert.deepEqual(value, [JSON.stringify({ a: key }).length, JSON.stringify({ a: key }).length])
  assert.deepEqual(reports.map((r) => [r.type, r.where.path, r.where.status]), [['response', '/api/me', 402]])
})

test('one response in ten is read without the option responseSampleRate, as README.md says', { skip }, async () => {
  const { reports } = await inPage(`
    sdk.init({ dsn: '$DSN' })
    const random = [0.1, 0.5, 0.0999]; Math.random = () => random.shift() ?? 0.99
    for (const url of ['/a', '/b', '/c']) await (await fetch(url)).text()
    while (!requests.length) { await new Promise((resolve) => setTimeout(resolve, 10)); await sdk.flush() }; done(0)`)
  assert.deepEqual(reports.map((r) => r.where.path), ['/c'])
  assert.match(readFileSync(new URL('README.md', import.meta.url), 'utf8'), /^\| responses to `fetch`.*one in ten.*`responseSampleRate: 1`/m)
})

// Code in which a page's own responses have another body.
const bodyOf = (body) => `
  const [Plain, later] = [Response, setTimeout]; let isCancelled = false
  globalThis.Response = function (text, options) { return new Plain(${body}, options) }`

test('the first 256 KiB of a response are checked, also if it is longer', { skip }, async () => {
  const { value, reports } = await inPage(`${bodyOf("text + ' '.repeat(300 << 10)")}
    const { length } = await (await fetch('/api/long')).text()
    for (let i = 0; i < 200 && !requests.length; i++) { await new Promise((resolve) => setTimeout(resolve, 10)); await sdk.flush() }; done(length)`)
  assert.equal(value, JSON.stringify({ a: key }).length + (300 << 10))
  assert.deepEqual(reports.map((r) => r.where.path), ['/api/long'])
})

test('a stream that the page cancels ends: it is read for ten seconds at most', { skip }, async () => {
  const { value, reports } = await inPage(`${bodyOf(`new ReadableStream({
      start: (stream) => stream.enqueue(new TextEncoder().encode(text)), cancel() { isCancelled = true } })`)}
    const times = []
    globalThis.setTimeout = (f, time, ...rest) => { times.push(time); return later(f, time / 20, ...rest) }
    const reader = (await fetch('/api/stream')).body.getReader()
    await reader.read()
    const ended = await Promise.race([reader.cancel().then(() => true), new Promise((resolve) => later(resolve, 5000, false))])
    await sdk.flush(); done([ended, isCancelled, times[0]]); process.exit()`)
  assert.deepEqual(value, [true, true, 10_000])
  assert.deepEqual(reports.map((r) => r.where.path), ['/api/stream'])
})

test('what waits is sent as a beacon of less than 60,000 bytes when the page is hidden; errors are reported', { skip }, async () => {
  const { value } = await inPage(`
    for (let i = 0; i < 300; i++) { const f = new Function('k', 'console.log(k)\\n//# sourceURL=http://page.example/' + 'x'.repeat(240) + i + '.js'); f('$KEY') }
    const event = new Event('error'); event.error = new Error('$KEY'); listeners.dispatchEvent(event)
    document.visibilityState = 'hidden'; document.dispatchEvent(new Event('visibilitychange'))
    const body = await beacons[0][1].text(); await sdk.close()
    done({ length: body.length, type: beacons[0][1].type, url: beacons[0][0], reports: JSON.parse(body).reports.length })`)
  assert.ok(value.length <= 60_000 && value.reports > 10)
  assert.equal(value.type, 'text/plain;charset=utf-8')
  assert.ok(value.url.includes('/base/api/dsn_a1/reports?k='))
})

test('a relay that cannot be reached is said once by the page\'s own console.warn, and to onError', { skip }, async () => {
  const { value } = await inPage(`
    const errors = []
    sdk.init({ dsn: '${'http://pk' + '1'.repeat(22) + '0'.repeat(20) + '1z'}@127.0.0.1:9/dsn_a1', onError: (e) => errors.push([e.message, typeof e.cause]) })
    console.log('$KEY'); await sdk.flush(); await sdk.flush(); done({ errors, lines: lines.slice(1) })`)
  assert.deepEqual(value.lines, [['warn', 'eventrelay: reporting to host 127.0.0.1:9 fails']])
  assert.deepEqual(value.errors, [['reporting to host 127.0.0.1:9 fails', 'object']])
})
