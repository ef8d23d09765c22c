// Data for the pages of the dashboard, and the list of these pages.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { all } from './checks.mjs'
import { call, patience, post, providers } from './dashboard.mjs'
import { hostile } from './receiver.mjs'

// seed creates two endpoints and events of several outcomes, and returns the pages that show them: { name, path }. label
// is the beginning of all names. fill makes those of endpoints and destinations about as long as names may be.
export async function seed(relay, receiver, label, fill = '') {
  const name = (text) => `${label}${text}`.padEnd(95, fill)
  const github = await endpoint(relay, {
    name: name('pushes'),
    provider: 'github',
    verification: { secret: providers.GitHub.secret },
    destinations: [{ name: name('build'), url: `${receiver.url}/build` }],
  })
  const failing = await endpoint(relay, {
    name: name('orders'),
    description: 'Orders of the shop, and a long description that a narrow window has to break into several lines.',
    provider: 'generic',
    type_source: 'body:$.type',
    destinations: [
      { url: `${receiver.url}/down/${'long-path-'.repeat(12)}`, name: fill ? name('shop') : undefined },
      { url: `${receiver.url}/accounts` },
    ],
  })
  assert.equal(await post(github.ingest_url, 'GitHub', '{"ref":"refs/heads/main","commits":[]}'), 200)
  assert.equal(await post(github.ingest_url, 'GitHub', JSON.stringify({ text: label }), 'the wrong secret of all'), 401)
  const response = await fetch(`${failing.ingest_url}?q=${encodeURIComponent(label)}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Text': label },
    body: JSON.stringify({ type: `${label}order.paid`, customer: { name: label, total: 1250.5, items: ['a', null, true] } }),
  })
  assert.equal(response.status, 200)
  const delivered = await event(relay, github.id, (e) => e.status === 'delivered')
  const rejected = await event(relay, github.id, (e) => e.status === 'rejected')
  const retrying = await event(relay, failing.id, (e) => e.deliveries.some((d) => d.status === 'retrying'))
  const { drain, finding } = await seedLeak(relay, label)
  const { status, body: fixture } = await call(relay, 'POST', '/v1/fixtures', { event_id: retrying, name: `${label}paid` })
  assert.equal(status, 201)
  const selection = { endpoint_id: github.id, since: new Date(Date.now() - 3_600_000).toISOString() }
  const { body: run } = await call(relay, 'POST', '/v1/replays', selection)
  assert.ok(run.run_id)
  const { body: dsn } = await call(relay, 'POST', '/v1/dsns', { name: `${label}shop`, platform: 'browser', allowed_origins: ['https://shop.example.com'] })
  assert.ok(dsn.dsn)
  const { body: domain } = await call(relay, 'POST', '/v1/domains', { hostname: 'shop.example.com' })
  assert.equal(domain.status, 'pending')
  const type = encodeURIComponent(`${label}order.paid`.slice(0, 128))
  const described = await call(relay, 'PUT', `/v1/event_types/${type}`, {
    description: label,
    group: label.slice(0, 100),
    schema: { type: 'object', required: ['type'] },
    example: { type: label },
  })
  assert.equal(described.status, 200, JSON.stringify(described.body))
  const tenant = 'customer-42'
  const customer = await call(relay, 'PUT', `/v1/tenants/${tenant}`, { name: name('Ltd'), allowance_events: 1000, limits: { endpoints: 5 } })
  assert.equal(customer.status, 200, JSON.stringify(customer.body))
  for (const [path, body] of [['keys', { name: name('key'), scope: 'read' }], ['portal_links', {}]]) {
    assert.equal((await call(relay, 'POST', `/v1/tenants/${tenant}/${path}`, body)).status, 201)
  }
  const issue = await anIssue(relay, label)
  await endpoint(relay, { // a sample shop whose events have ended
    name: name('sample'),
    metadata: { sample_began_at: String(Math.floor(Date.now() / 1000) - 600) },
    destinations: ['https://sample-shop.invalid/mailer'],
  })
  const at = (name, path) => ({ name, path: `/app${path}` })
  return [
    at('start', ''),
    at('endpoints', '/endpoints'),
    at('endpoint-providers', '/endpoints/new'),
    at('endpoint-new', '/endpoints/new?provider=stripe'),
    at('endpoint', `/endpoints/${failing.id}`),
    at('endpoint-wait', `/endpoints/${github.id}/wait`),
    at('endpoint-settings', `/endpoints/${failing.id}/settings`),
    at('endpoint-retries', `/endpoints/${failing.id}/retries`),
    at('destination-new', `/endpoints/${failing.id}/destinations/new`),
    at('destination', `/endpoints/${failing.id}/destinations/${failing.destinations[0].id}`),
    at('destination-settings', `/endpoints/${failing.id}/destinations/${failing.destinations[0].id}/settings`),
    at('events', '/events'),
    at('events-empty', '/events?type=nothing'),
    at('event-delivered', `/events/${delivered}`),
    at('event-rejected', `/events/${rejected}?signature=1`),
    at('event-retrying', `/events/${retrying}`),
    at('event-attempts', `/events/${retrying}/attempts`),
    at('event-types', '/event-types'),
    at('event-type', `/event-types/${type}`),
    at('tenants', '/tenants'),
    at('tenant', `/tenants/${tenant}`),
    at('issues', '/issues'),
    at('issue', `/issues/${issue}`),
    at('sample', '/sample'),
    at('fixtures', '/fixtures'),
    at('fixture', `/fixtures/${fixture.id}`),
    at('findings', '/findings'),
    at('findings-empty', '/findings?source=sdk'),
    at('finding', `/findings/${finding}`),
    at('drains', '/drains'),
    at('drain', `/drains/${drain}`),
    at('applications', '/applications'),
    at('application', `/applications/${dsn.id}`),
    at('domains', '/domains'),
    at('domain', `/domains/${domain.id}`),
    at('scans', '/scans'),
    at('alerts', '/alerts/history'),
    at('alert-rules', '/alerts/rules'),
    at('alert-channels', '/alerts/channels'),
    at('replays', '/replays'),
    at('replay-new', `/replays/new?endpoint_id=${github.id}`),
    at('replay', `/replays/${run.run_id}`),
    at('recoveries', '/recoveries'),
    at('recovery-new', `/recoveries/new?endpoint_id=${failing.id}`),
    at('usage', '/usage'),
    at('audit', '/audit'),
    at('keys', '/settings/keys'),
    at('agents', '/settings/agents'),
    at('people', '/settings/people'),
    at('detection', '/settings/detection'),
    at('password', '/settings/password'),
    at('about', '/settings/about'),
    at('not-found', '/nothing'),
  ]
}

// anIssue makes a delivery fail for good, and returns the id of its issue.
async function anIssue(relay, label) {
  const { id, ingest_url: url } = await endpoint(relay, {
    name: `${label}broken`.slice(0, 100),
    retry_policy: { strategy: 'none' },
    destinations: ['https://broken.invalid/'],
  })
  const response = await fetch(url, { method: 'POST', body: label })
  assert.equal(response.status, 200)
  for (const until = Date.now() + patience; ; await delay(500)) {
    const { body } = await call(relay, 'GET', `/v1/issues?endpoint_id=${id}`)
    if (body.data?.length) return body.data[0].id
    assert.ok(Date.now() < until, 'a failed delivery makes no issue')
  }
}

// deliver creates an endpoint and sends an event that is delivered. It returns the event's page and the ingest URL.
export async function deliver(relay, receiver, name) {
  const { id, ingest_url: ingestURL } = await endpoint(relay, {
    name,
    provider: 'github',
    verification: { secret: providers.GitHub.secret },
    destinations: [`${receiver.url}/orders`],
  })
  assert.equal(await post(ingestURL, 'GitHub', '{"type":"push","id":1}'), 200)
  return { id, ingestURL, path: `/app/events/${await event(relay, id, (e) => e.status === 'delivered')}` }
}

// seedLeak creates a log drain and a finding of a line that holds the label wherever a sender can place one.
async function seedLeak(relay, label) {
  const { body: drain } = await call(relay, 'POST', '/v1/drains', { name: `${label}production` })
  const secret = ['sk', 'live', 'q8ZkT2vN4xW7yR1mB5cJ9dL3'].join('_')
  const line = JSON.stringify({ app: label, env: label, release: label, msg: `${label} ${secret}` })
  const { status } = await fetch(drain.url, { method: 'POST', headers: { 'User-Agent': 'shipper' }, body: line })
  assert.equal(status, 202)
  for (const until = Date.now() + patience; ; await delay(100)) {
    const { body } = await call(relay, 'GET', '/v1/findings?rule=stripe-secret-live')
    const found = body.data?.find((f) => f.locations.length > 0)
    if (found) return { drain: drain.id, finding: found.id }
    assert.ok(Date.now() < until, 'the finding is not listed')
  }
}

// seedHostile creates an endpoint and events that hold the hostile text wherever others can place one, and returns the
// paths that show it or are made of it.
export async function seedHostile(relay, receiver) {
  const { id, ingest_url: ingestURL, destinations: [{ id: destination }] } = await endpoint(relay, {
    name: hostile,
    description: hostile,
    provider: 'generic',
    type_source: 'body:$.type',
    destinations: [{ name: hostile, url: `${receiver.url}/down` }, { url: `${receiver.url}/broken` }],
  })
  const send = async (body, contentType, headers = {}) => {
    const target = `${ingestURL}?${new URLSearchParams({ q: hostile })}`
    const response = await fetch(target, { method: 'POST', headers: { 'Content-Type': contentType, ...headers }, body })
    assert.equal(response.status, 200)
  }
  await send(JSON.stringify({ type: hostile, [hostile]: hostile }), 'application/json', { "X-'`$&|~": hostile })
  const failed = await event(relay, id, (e) => e.deliveries.every((d) => d.status === 'retrying'))
  await send(`--b\r\nContent-Disposition: form-data; name="f"; filename="${hostile}"\r\n\r\n\r\n--b--`,
    'multipart/form-data; boundary=b')
  const file = await event(relay, id, (e) => e.id !== failed)
  await send(JSON.stringify({ type: 'url_verification', challenge: hostile }), 'application/json')
  const challenge = await event(relay, id, (e) => e.type === 'url_verification')
  const text = encodeURIComponent(hostile)
  const filters = ['q', 'type', 'since', 'body_path', 'body_value', 'cursor']
  const paths = [
    `/app/events/${failed}?body=tree`,
    `/app/events/${failed}/attempts`,
    `/app/events/${file}?body=raw`,
    `/app/events/${challenge}`,
    '/app/events',
    `/app/events?${filters.map((name) => `${name}=${text}`).join('&')}`,
    `/app/endpoints/${id}/wait`,
    `/app/endpoints/${text}`,
    `/app/recoveries/new?endpoint_id=${id}&since=${text}`,
    `/app/alerts/history?rule=${text}&endpoint_id=${text}`,
    `/app/audit?actor=${text}&action=${text}&since=${text}`,
    '/app/usage',
    `${new URL(ingestURL).pathname}?challenge=${text}&hub.challenge=${text}`,
    `/docs?url=${text}&configUrl=${text}#/${hostile}`,
  ]
  if (!all) return paths
  return [
    ...paths,
    ...[failed, file, challenge].flatMap((id) => ['tree', 'raw', 'hex'].map((as) => `/app/events/${id}?body=${as}`)),
    `/app/events/${failed}/body?${text}`,
    `/app/endpoints/${id}`,
    `/app/endpoints/${id}/settings`,
    `/app/endpoints/${id}/destinations/${destination}`,
    ...['', 'events/', 'link/', 'settings/'].map((below) => `/app/${below}${text}`),
    `/app/endpoints/new?provider=${text}`,
    `/app/sign-in?next=${text}`,
    `/docs/${text}`,
  ]
}

async function endpoint(relay, value) {
  const { status, body } = await call(relay, 'POST', '/v1/endpoints', value)
  assert.equal(status, 201, JSON.stringify(body))
  return body
}

// event waits for an event of the endpoint and returns its id.
async function event(relay, endpointID, matches) {
  for (const until = Date.now() + patience; ; await delay(100)) {
    const { body } = await call(relay, 'GET', `/v1/events?endpoint_id=${endpointID}`)
    const found = body.data.find(matches)
    if (found) return found.id
    assert.ok(Date.now() < until, JSON.stringify(body.data))
  }
}
