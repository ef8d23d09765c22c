// The long form of the forwarder's test, for make torture: bin/relay is killed, then stopped for a minute, while events
// arrive. Each is copied once, and the destination of the endpoint gets each too.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startRelay } from '../browser/relay.mjs'
import { readBody, startServer } from '../shared/server.mjs'

const program = fileURLToPath(new URL('relay-forward.mjs', import.meta.url))
const events = 1000
const stopped = 60_000 // ms

// startReceiver counts requests by event.
async function startReceiver(header) {
  const count = new Map()
  const server = await startServer(async (request, response) => {
    await readBody(request)
    const id = request.headers[header]
    count.set(id, (count.get(id) ?? 0) + 1)
    response.end()
  })
  return { ...server, count }
}

async function until(condition) {
  const last = Date.now() + 300_000 // only for a hang
  while (!condition()) {
    if (Date.now() > last) throw new Error(`waited for ${condition}`)
    await delay(20)
  }
}

for (const [name, disturb] of [
  ['killed by SIGKILL', (relay) => relay.restart()],
  ['stopped for a minute', async (relay) => {
    process.kill(relay.pid, 'SIGSTOP')
    await delay(stopped)
    process.kill(relay.pid, 'SIGCONT')
  }],
]) {
  test(`1,000 events, and the service ${name} at event 500: each is copied once`, async (t) => {
    const relay = await startRelay()
    t.after(relay.stop)
    const [destination, local] = [await startReceiver('webhook-id'), await startReceiver('relay-event-id')]
    t.after(() => Promise.all([destination.stop(), local.stop()]))
    // post repeats a call until it is answered; the key makes that harmless.
    const post = async (path, body, idempotencyKey) => {
      for (;;) {
        try {
          const response = await fetch(relay.url + path, {
            method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(10_000),
            headers: { authorization: `Bearer ${relay.key}`, 'content-type': 'application/json',
              'idempotency-key': idempotencyKey },
          })
          if (response.ok) return await response.json()
        } catch {
          // It is killed or stopped.
        }
        await delay(100)
      }
    }
    const endpoint = await post('/v1/endpoints', { destinations: [{ url: destination.url }] }, 'endpoint')
    const child = spawn(process.execPath, [program, endpoint.id, local.url], {
      env: { RELAY_API_KEY: relay.key, RELAY_BASE_URL: relay.url }, stdio: ['ignore', 'pipe', 'pipe'],
    })
    t.after(() => child.kill('SIGKILL'))
    let shown = ''
    child.stdout.on('data', (text) => { shown += text })
    child.stderr.on('data', (text) => { shown += text })
    await until(() => shown.includes('Waiting for new events'))
    const ids = []
    let disturbed
    for (let i = 0; i < events; i++) {
      if (i === events / 2) {
        await until(() => local.count.size > 0)
        disturbed = disturb(relay)
      }
      ids.push((await post(`/v1/endpoints/${endpoint.id}/events`, { type: 'a.b', data: { i } }, `event-${i}`)).id)
    }
    await disturbed
    await until(() => local.count.size >= events && destination.count.size >= events)
    assert.deepEqual([...local.count.keys()].sort(), [...ids].sort(), shown)
    assert.deepEqual([...local.count.values()].filter((n) => n !== 1), [], 'an event was copied twice')
    child.kill('SIGINT')
    const [code] = await once(child, 'close')
    assert.equal(code, 0)
    assert.match(shown, /Copied 1000 events: 1000 answered with 2xx, 0 with another status, 0 without an answer/)
  })
}
