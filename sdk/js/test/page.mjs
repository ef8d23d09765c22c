// A stand-in for a page, of what Node.js has not.
import assert from 'node:assert/strict'
import { run } from './run.mjs'
import { newSink } from './sink.mjs'

const page = `
  import fs from 'node:fs'
  const document = new EventTarget(); document.visibilityState = 'visible'
  const listeners = new EventTarget()
  globalThis.addEventListener = (...args) => listeners.addEventListener(...args)
  globalThis.removeEventListener = (...args) => listeners.removeEventListener(...args)
  globalThis.location = new URL('http://page.example/app')
  globalThis.document = document
  const beacons = []
  Object.defineProperty(globalThis, 'navigator', { value: { sendBeacon: (url, body) => beacons.push([url, body]) } })
  const lines = []
  for (const method of ['assert', 'count', 'debug', 'dir', 'dirxml', 'error', 'group', 'groupCollapsed', 'info', 'log', 'table', 'time', 'trace',
    'warn']) console[method] = (...values) => lines.push([method, ...values])
  const answers = globalThis.fetch
  const requests = []
  globalThis.fetch = async (url, options) => {
    if (String(url).includes('/api/dsn_')) { requests.push(options.body); return answers(url, options) }
    const response = new Response('{"a":"$KEY"}', { status: 402, headers: { 'content-type': 'application/json' } })
    Object.defineProperty(response, 'url', { value: new URL(url, location).href })
    return response
  }
  const sdk = await import('./src/browser.js')
  sdk.init({ dsn: '$DSN', responseSampleRate: 1 })
  const done = (value) => fs.writeSync(1, JSON.stringify(value))
`

// inPage runs code in a page. done(value) ends it with a value; lines has what the console was given.
export async function inPage(code) {
  const sink = await newSink()
  const { out, err, status } = await run(page + code, { sink })
  sink.stop()
  assert.equal(status, 0, err)
  return { value: JSON.parse(out), reports: sink.reports() }
}
