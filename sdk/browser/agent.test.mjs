// Changes that an agent asks for, decided on by a person in the dashboard: approved, declined, in two tabs at once, and
// too late. The official clients of both ages of the protocol, with keys of every kind. An agent with a scripted model
// that investigates failed deliveries and has them sent again.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { all, checkAccessible, checkWidths } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { any, connections } from './clients.mjs'
import { call, choosePassword, patience, signIn } from './dashboard.mjs'
import { startReceiver } from './receiver.mjs'
import { startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'

let relay, receiver, browser

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found');
  [relay, receiver, browser] = await Promise.all([startRelay(), startReceiver(), openBrowser()])
})

after(async () => {
  await Promise.all([browser?.close(), relay?.stop(), receiver?.stop()])
})

// tool calls a tool of the agent server with the key of an agent, and returns its result. A busy relay says that it has
// to be asked again.
async function tool(key, name, args, until = Date.now() + patience) {
  const response = await fetch(`${relay.url}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
  })
  const { result } = await response.json()
  const { isError, content: [{ text }] } = result
  if (!isError) return JSON.parse(text)
  assert.ok(text.startsWith('unavailable: ') && Date.now() < until, text)
  await delay(500)
  return tool(key, name, args, until)
}

// makeKey makes a key on a page of the settings, agents or keys, and returns it.
async function makeKey(page, where, name, scope) {
  await page.goto(`${relay.url}/app/settings/${where}`)
  await page.getByLabel(/^Name/).fill(name)
  await page.getByLabel(scope).check()
  await page.getByRole('button', { name: 'Create key' }).click()
  return page.locator('#new-key').innerText()
}

// sendEvents creates an endpoint with a destination at a path of the receiver, sends an event of each type, and waits
// until all have the status.
async function sendEvents(path, types, status) {
  const { body: endpoint } = await call(relay, 'POST', '/v1/endpoints', { name: 'orders',
    retry_policy: { strategy: 'none' }, destinations: [{ url: `${receiver.url}${path}` }] })
  const events = []
  for (const type of types) {
    events.push((await call(relay, 'POST', `/v1/endpoints/${endpoint.id}/events`, { type, data: {} })).body.id)
  }
  for (const id of events) {
    while ((await call(relay, 'GET', `/v1/events/${id}`)).body.status !== status) await delay(100)
  }
  return { endpoint: endpoint.id, events }
}

// approve approves the change that the page shows, and waits until it is done. On a busy machine a part of the relay may
// not answer in time; the page then asks to try again, and approve does. If the change ends otherwise, the error has what
// the page says.
async function approve(page) {
  const url = page.url()
  await page.getByRole('button', { name: 'Approve' }).click()
  const done = page.getByText(/^Done, approved by/)
  try {
    await done.or(page.getByText(/try again/i)).first().waitFor()
  } catch (error) {
    throw new Error(`${error.message}\n${await page.locator('body').innerText()}`)
  }
  if (await done.count()) return
  await page.goto(url)
  if (await page.getByRole('button', { name: 'Approve' }).count()) await approve(page)
  else await done.waitFor()
}

test('changes of an agent: approved, declined, in two tabs', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await choosePassword(page, relay.link)
  const { events } = await sendEvents('/json', ['order.paid', 'order.sent', 'order.lost', 'order.late'], 'delivered')
  const key = await makeKey(page, 'agents', 'claude', /asks for changes/)
  const ask = (n, note) => tool(key, 'event_replay', { id: events[n], note })
  const state = async (asked) => (await tool(key, 'action_status', { action_id: asked.action_id })).state

  // From the overview to the approval. The agent's note is text, whatever it says.
  const first = await ask(0, '<img src=x onerror="window.hurt = 1"> approve this')
  await page.goto(`${relay.url}/app`)
  await page.getByText('asks for a change').waitFor()
  await page.getByText('1 waits').waitFor()
  await checkAccessible(page, 'the overview with a change of an agent')
  await page.getByRole('link', { name: 'Decide' }).click()
  await page.getByText('Nothing has been changed').waitFor()
  await checkAccessible(page, 'the change of an agent')
  await checkWidths(page, 'the change of an agent')
  assert.equal(await state(first), 'pending')
  await approve(page)
  assert.equal(await state(first), 'done')

  const second = await ask(1, '')
  await page.goto(second.confirm_url)
  await page.getByRole('button', { name: 'Decline' }).click()
  await page.getByText(/^Declined by/).waitFor()
  assert.equal(await state(second), 'declined')

  // Two tabs show the same change: the second decision changes nothing.
  const third = await ask(2, '')
  await page.goto(third.confirm_url)
  const storageState = await page.context().storageState() // the same session
  const { page: other, faults: othersFaults } = await openPage(browser, relay.url, { storageState })
  await other.goto(third.confirm_url)
  await approve(other)
  await page.getByRole('button', { name: 'Decline' }).click()
  await page.getByText('This was already decided').waitFor()
  assert.equal(await state(third), 'done')

  // The page stays open until the time is over (in the long form: ten minutes).
  if (all) {
    const late = await ask(3, '')
    await page.goto(late.confirm_url)
    while (Date.now() < Date.parse(late.expires_at) + 1000) await delay(1000)
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('its time is over').waitFor()
    await page.getByText('Expired: no decision').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0)
    assert.equal(await state(late), 'expired')
    await checkAccessible(page, 'an expired change')
  }

  const { body: runs } = await call(relay, 'GET', '/v1/replays')
  assert.deepEqual(runs.data.map((run) => run.filter.event_id).sort(), [events[0], events[2]].sort())
  await page.goto(`${relay.url}/app/settings/agents`)
  await page.getByRole('heading', { name: 'Requests by agents' }).waitFor()
  await page.getByRole('cell', { name: 'declined' }).waitFor() // one, or this fails
  await checkAccessible(page, 'what agents asked for')
  assert.equal(await page.evaluate(() => window.hurt), undefined)
  assert.deepEqual([...faults, ...othersFaults], [])
  await other.close()
  await page.close()
})

test('official clients with keys of every kind', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await signIn(page, relay.url, 'dev@localhost')
  const { endpoint, events: [event] } = await sendEvents('/json', ['order.paid'], 'delivered')
  const reading = ['action_status', 'endpoints_list', 'event_get', 'events_list', 'finding_get', 'findings_list',
    'recoveries_list', 'usage_get']
  const changing = ['event_replay', 'finding_update', 'recovery_action', 'scan_start']
  const keys = [
    { name: 'a key that reads', key: await makeKey(page, 'keys', 'reader', /^Read(?! and)/) },
    { name: "an agent's key that reads", key: await makeKey(page, 'agents', 'agent that reads', /^Reads(?!,)/) },
    { name: 'a key that writes', key: await makeKey(page, 'keys', 'writer', /^Read and write/), asks: true, writes: true },
    { name: "an agent's key that asks", key: await makeKey(page, 'agents', 'agent that asks', /asks for changes/), asks: true },
  ]
  const result = async (client, name, args) => {
    for (const until = Date.now() + patience; ; await delay(500)) { // a busy relay says that it has to be asked again
      const { content: [{ text }], isError } = await client.callTool({ name, arguments: args })
      if (!isError) return JSON.parse(text)
      if (!text.startsWith('unavailable: ') || Date.now() > until) return { error: text }
    }
  }
  // Every reading tool, and each kind of error.
  const reads = async (client, where) => {
    assert.equal((await result(client, 'events_list', { endpoint_id: endpoint })).data[0].id, event, where)
    assert.ok((await result(client, 'endpoints_list', { limit: 50 })).data.some(({ id }) => id === endpoint), where)
    assert.ok((await result(client, 'usage_get', {})).period_start, where)
    for (const list of ['findings_list', 'recoveries_list']) assert.ok((await result(client, list, {})).data, where)
    assert.match((await result(client, 'finding_get', { id: 'fnd_none' })).error, /^not_found/, where)
    assert.match((await result(client, 'action_status', { action_id: 'act_none' })).error, /^not_found/, where)
    assert.match((await result(client, 'event_get', { ids: event })).error, /ids/, where)
    await assert.rejects(client.callTool({ name: 'key_create', arguments: {} }), { code: -32602 }, where)
    await assert.rejects(client.request({ method: 'resources/list' }, any), ({ code, status }) => code === -32601 || status === 404, where)
  }
  const replays = async () => (await call(relay, 'GET', '/v1/replays')).body.data.filter((run) => run.filter.event_id === event)
  for (const { name, key, asks, writes } of keys) {
    const acts = new Set()
    for (const { name: as, revision, first, connect } of connections) {
      const where = `${as}, ${name}`
      const client = await connect(relay.url, key)
      const { tools } = await client.listTools()
      assert.deepEqual(tools.map((tool) => tool.name).sort(), [...reading, ...asks ? changing : []].sort(), where)
      assert.ok(tools.every(({ name, annotations }) => Boolean(annotations.readOnlyHint) === reading.includes(name)), where)
      assert.match(client.getInstructions(), /data, never instructions/)

      assert.equal((await result(client, 'event_get', { id: event, include_body: true })).id, event, where)
      if (key === keys[0].key) await reads(client, where)
      const asked = await result(client, 'event_replay', { id: event })
      if (asks) {
        assert.equal(asked.status, 'confirmation_required', where)
        assert.equal(asked.confirm_url, `${relay.url}/app/confirm/${asked.action_id}`, where)
        assert.equal((await result(client, 'action_status', { action_id: asked.action_id })).state, 'pending', where)
        acts.add(asked.action_id)
      } else {
        assert.match(asked.error, /^insufficient_scope: the API key may only read/, where)
      }
      assert.equal(client.sent[0].method, first, where)
      assert.equal(client.sent.at(-1).revision, revision, where)
      await client.close()
    }
    assert.equal(acts.size, asks ? 1 : 0, `${name}: equal requests of a key are one`)
    const response = await fetch(`${relay.url}/v1/endpoints/${endpoint}`, { method: 'PATCH', body: '{"name":"orders"}',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } })
    assert.equal(response.status, writes ? 200 : 403, `${name}: a change under /v1`)
  }
  for (const { connect } of connections) await assert.rejects(connect(relay.url, 'rly_live_unknown'), /unknown, expired or revoked|HTTP 401/)
  assert.deepEqual(await replays(), [])
  assert.deepEqual(faults, [])
  await page.close()
})

// The steps are those of the transcript in docs/start/agents.md. The model is scripted: each step takes its arguments from what
// the steps before have shown. The destination tries to give it orders.
test('an agent investigates failed deliveries and has them sent again', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await signIn(page, relay.url, 'dev@localhost')
  const { endpoint } = await sendEvents('/mend', ['invoice.paid', 'invoice.sent'], 'failed')
  const { body: job } = await call(relay, 'POST', '/v1/recoveries', { endpoint_id: endpoint, rate_per_second: 100,
    since: new Date(Date.now() - 3_600_000).toISOString() })
  const key = await makeKey(page, 'agents', 'on call', /asks for changes/)
  const client = await connections.at(-1).connect(relay.url, key)
  const asked = []
  const use = async (name, args) => {
    asked.push(name)
    const { content: [{ text }], isError } = await client.callTool({ name, arguments: args })
    if (isError && text.startsWith('unavailable: ')) return delay(500).then(() => use(name, args))
    assert.ok(!isError, text)
    assert.doesNotMatch(text.replaceAll(relay.url, ''), /:\/\/|<img|\]\(/, `${name}: a link or markup of others`)
    return JSON.parse(text)
  }
  const approve = async ({ confirm_url: address, action_id: id, summary }) => {
    await page.goto(address)
    await page.getByText(`${summary}.`).waitFor()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText(/^Done, approved by/).waitFor()
    assert.equal((await use('action_status', { action_id: id })).state, 'done')
  }
  const jobIn = async (...states) => {
    for (;;) {
      const { data: [found] } = await use('recoveries_list', { endpoint_id: endpoint })
      if (states.includes(found.state)) return found
      await delay(200)
    }
  }

  const { data: [failed] } = await use('events_list', { status: 'failed', endpoint_id: endpoint, limit: 1 })
  let attempt // a busy store shows it later than the list
  while (!attempt) [attempt] = (await use('event_get', { id: failed.id })).attempts
  assert.equal(attempt.response_status, 500)
  assert.match(attempt.response.body, /is down/)
  assert.equal((await jobIn('ready')).id, job.id)
  receiver.mend()
  const canary = await use('recovery_action', { recovery_id: job.id, action: 'canary', note: 'the destination answers again' })
  assert.equal((await jobIn('ready')).canary.total, 0, 'nothing is sent before the approval')
  await approve(canary)
  assert.equal((await jobIn('completed')).delivered, 2)
  assert.equal((await use('event_get', { id: failed.id })).status, 'delivered')

  const { body: entries } = await call(relay, 'GET', `/v1/audit?entity_id=${job.id}`)
  assert.equal(entries.data.filter(({ changes }) => changes.includes('started_at')).length, 1)
  const { body: calls } = await call(relay, 'GET', '/v1/audit?action=tool.called&limit=100')
  const own = calls.data.filter(({ actor }) => actor.name === 'on call').map(({ entity }) => entity.id).reverse()
  assert.deepEqual(own, asked)
  assert.deepEqual(faults, [])
  await client.close()
  await page.close()
})
