// The forwarder beside a running relay.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readBody, startServer } from '../shared/server.mjs'
import { call, patience } from './dashboard.mjs'
import { startRelay } from './relay.mjs'

const program = fileURLToPath(new URL('../forward/relay-forward.mjs', import.meta.url))

async function until(condition) {
  const last = Date.now() + patience // only for a hang
  while (!condition()) {
    if (Date.now() > last) throw new Error(`waited for ${condition}`)
    await delay(20)
  }
}

// startReceiver keeps the header lines of requests, as [name, value] with one character for each byte.
async function startReceiver() {
  const got = []
  const server = await startServer(async (request, response) => {
    await readBody(request)
    got.push(request.rawHeaders.flatMap((x, i, all) => (i % 2 ? [] : [[x.toLowerCase(), all[i + 1]]])))
    response.end()
  })
  return { ...server, got }
}

test('header values in Latin-1 reach the API, the destination and the local server byte for byte', async (t) => {
  const relay = await startRelay()
  t.after(relay.stop)
  const [destination, local] = [await startReceiver(), await startReceiver()]
  t.after(() => Promise.all([destination.stop(), local.stop()]))
  const { body: endpoint } = await call(relay, 'POST', '/v1/endpoints', { destinations: [{ url: destination.url }] })
  const forwarder = spawn(process.execPath, [program, endpoint.id, local.url], {
    env: { RELAY_API_KEY: relay.key, RELAY_BASE_URL: relay.url }, stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => forwarder.kill('SIGKILL'))
  let shown = ''
  forwarder.stdout.on('data', (text) => { shown += text })
  await until(() => shown.includes('Waiting for new events'))

  const { hostname, port, pathname } = new URL(endpoint.ingest_url)
  const provider = net.connect(port, hostname)
  const lines = ['X-Name: Zo\xeb \xff', 'X-Name: Zo\xc3\xab', 'Content-Length: 2', 'Connection: close']
  provider.end(Buffer.from(`POST ${pathname} HTTP/1.1\r\nHost: relay\r\n${lines.join('\r\n')}\r\n\r\n{}`, 'latin1'))
  const [answer] = await once(provider, 'data')
  assert.match(String(answer), /^HTTP\/1.1 200 /)
  const id = /relay-event-id: (\S+)/i.exec(String(answer))[1]

  await until(() => local.got.length && destination.got.length)
  const wanted = ['Zo\xeb \xff', 'Zo\xc3\xab']
  for (const [name, { got }] of Object.entries({ local, destination })) {
    assert.deepEqual(got[0].filter(([header]) => header === 'x-name').map(([, value]) => value), wanted, name)
  }
  const { body: event } = await call(relay, 'GET', `/v1/events/${id}`)
  const values = event.headers_raw.flatMap(([name, value], i) => {
    const bytes = event.headers_base64[i]
    return name === 'X-Name' ? [(bytes ? Buffer.from(bytes, 'base64') : Buffer.from(value)).toString('latin1')] : []
  })
  assert.deepEqual(values, wanted)
})
