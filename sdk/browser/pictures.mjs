// The pictures of the documents: an account in trouble, the pages that show it, and the elements of these pages.
import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { call, choosePassword, patience } from './dashboard.mjs'
import { openPage } from './chromium.mjs'
import { startRelay } from './relay.mjs'

export const directory = fileURLToPath(new URL('../../docs/pictures/', import.meta.url))
// elementsFile lists what each picture shows.
export const elementsFile = `${directory}elements.json`
const width = 1280

// openPictures starts a relay, brings its account into trouble, and returns { page, pictures, stop }. pictures are
// { name, path, height, ready }: ready is a text that the page shows once the picture can be taken. More minutes of
// traffic make a fuller chart.
export async function openPictures(browser, minutes = 0) {
  const [names, applications] = await Promise.all([startNames(), startApplications()])
  let relay
  const stop = () => Promise.all([relay?.stop(), names.stop(), applications.stop()])
  try {
    relay = await startRelay({ RELAY_DNS_SERVER: names.address, RELAY_TRUSTED_PROXIES: '127.0.0.0/8' })
    const { page } = await openPage(browser, relay.url, { viewport: { width, height: 900 } })
    await choosePassword(page, relay.link)
    return { page, pictures: await seedPictures(relay, applications, page, minutes), stop, url: relay.url }
  } catch (error) {
    await stop()
    throw error
  }
}

// showPicture opens the page of a picture and waits until it shows what the picture is for.
export async function showPicture(page, url, { path, height, ready }) {
  for (const until = Date.now() + patience; ; await delay(1000)) {
    await page.goto(url + path)
    if (await page.getByText(ready).first().isVisible()) break
    assert.ok(Date.now() < until, `${path} does not show ${ready}: ${(await page.locator('main').innerText()).slice(0, 2000)}`)
  }
  await page.setViewportSize({ width, height })
}

// namedElements returns the title of the page and its other elements with a name: headings, labels, columns, buttons and
// the entries of the menu. Those below the picture count too: what fits depends on the fonts of the machine. How many things
// the overview lists depends on the time: failures become an issue within a minute.
export const namedElements = (page) => page.evaluate(() => {
  const named = 'h1, h2, h3, nav a, main dt:not(.hd > dt), main th, main button, main a.b, main legend, main label > span'
  return [...document.querySelectorAll(named)].filter((element) => element.checkVisibility() && element.offsetWidth > 1)
    .map((element) => `${element.localName}: ${element.innerText.replace(/\s+/g, ' ').trim()}`)
    .filter((text) => text !== 'a: Recover these') // only once a destination works again
    .map((text) => text.replace(/^h1: \w+ things? needs? attention$/, 'h1: things need attention'))
    .filter((text, i, all) => text !== all[i - 1])
})

// startNames answers each DNS query with this machine, so that destinations have names as in production.
async function startNames() {
  const socket = createSocket('udp4')
  socket.on('message', (query, { port, address }) => {
    let end = 12
    while (query[end]) end += query[end] + 1
    const question = query.subarray(12, end + 5)
    const isA = query.readUInt16BE(end + 1) === 1
    const head = Buffer.from([query[0], query[1], 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0])
    const answer = isA ? Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]) : Buffer.alloc(0)
    socket.send(Buffer.concat([head, question, answer]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { address: `127.0.0.1:${socket.address().port}`, stop: () => new Promise((resolve) => socket.close(resolve)) }
}

// startApplications receives deliveries for all names. Those that are down answer 503, and fail names one that does once.
async function startApplications() {
  const down = new Set()
  const applications = { down, fail: undefined }
  const server = createServer((request, response) => {
    request.resume().on('end', async () => {
      await delay(8 + 30 * Math.random())
      const { hostname } = new URL(`http://${request.headers.host}`)
      const ok = !down.has(hostname) && applications.fail !== hostname
      if (applications.fail === hostname) applications.fail = undefined
      const body = ok ? { received: true } : { error: 'database is in recovery mode' }
      response.writeHead(ok ? 200 : 503, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  try {
    await once(server.listen(8080, '127.0.0.1'), 'listening') // it looks better than another port
  } catch {
    await once(server.listen(0, '127.0.0.1'), 'listening')
  }
  const stop = async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  applications.at = (host, path) => `http://${host}:${server.address().port}${path}`
  return Object.assign(applications, { stop })
}

const hmac = (text, secret, encoding = 'hex') => createHmac('sha256', secret).update(text).digest(encoding)

// The senders by provider: address, secret, headers and body of the nth event.
const senders = { stripe: '54.187.174.169', github: '140.82.115.24', shopify: '34.133.113.228' }
const secrets = {
  stripe: ['whsec', '4fKq9Zt2Lr7vXwB1mY6cN3pD8sHg5jTe'].join('_'), github: 'T9v#4mQz7!kLw2Xc', shopify: 'e3a1c97b52f04d68',
}
const sign = {
  stripe: (body, secret) => {
    const at = Math.floor(Date.now() / 1000)
    return { 'User-Agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)', 'Stripe-Signature': `t=${at},v1=${hmac(`${at}.${body}`, secret)}` }
  },
  github: (body, secret) => ({ 'User-Agent': 'GitHub-Hookshot/81f4d2a', 'X-GitHub-Event': 'deployment_status',
    'X-GitHub-Delivery': randomUUID(), 'X-Hub-Signature-256': `sha256=${hmac(body, secret)}` }),
  shopify: (body, secret) => ({ 'User-Agent': 'Shopify-Captain-Hook', 'X-Shopify-Topic': 'orders/create',
    'X-Shopify-Hmac-Sha256': hmac(body, secret, 'base64') }),
}
const bodies = {
  stripe: (n) => ({ id: `evt_1QxT${3400 + n}LkdIwHu7ix`, object: 'event', type: ['invoice.paid', 'charge.succeeded',
    'customer.subscription.updated'][n % 3], livemode: true, data: { object: { id: `in_1QxT${8100 + n}LkdIwHu7`,
    customer: 'cus_RkP0b2mYc8', amount_paid: 4900 + 100 * (n % 7), currency: 'eur', paid: true } } }),
  github: (n) => ({ action: 'created', deployment_status: { id: 29160 + n, state: 'success', environment: 'production' },
    repository: { full_name: 'acme/checkout', private: true } }),
  shopify: (n) => ({ id: 820982911946154500 + n, name: `#${1001 + n}`, total_price: '129.00', currency: 'EUR',
    line_items: [{ sku: 'TEE-M-BLACK', quantity: 1 }] }),
}

// Keys in lines of a log, written apart so that no scanner takes this file for a leak.
const leaks = [
  ['checkout', 1, `using test key ${['sk', 'test', 'm3HvQ8zLk2XwT9bYc5RnD7pJ'].join('_')}`],
  ['storefront', 4, `GET /maps/api/js?key=${['AIza', 'SyD4kQ9xTz2LwVb7Nc1mRpH6sYfJgE0uA3X'].join('')}`],
  ['deploy', 2, `git clone https://${['ghp', 'q8ZkT2vN4xW7yR1mB5cJ9dL3fH6gS0pAaEuX'].join('_')}@github.com/acme/checkout`],
  ['orders', 7, `cannot connect to postgres://${['orders', 'Vt7-pXq2-mLk9'].join(':')}@db.internal:5432/orders`],
  ['checkout', 31, `charging with ${['sk', 'live', 'q8ZkT2vN4xW7yR1mB5cJ9dL3'].join('_')} failed: card_declined`],
]

async function send({ provider, ingest_url: url }, n, secret = secrets[provider]) {
  const body = JSON.stringify(bodies[provider](n), null, provider === 'stripe' ? 2 : 0)
  const headers = { 'Content-Type': 'application/json', 'X-Forwarded-For': senders[provider], ...sign[provider](body, secret) }
  return (await fetch(url, { method: 'POST', headers, body })).status
}

async function seedPictures(relay, applications, page, minutes) {
  const must = async (method, path, value) => {
    const { status, body } = await call(relay, method, path, value)
    assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(body)}`)
    return body
  }
  const until = async (path, matches) => {
    for (const end = Date.now() + patience; ; await delay(250)) {
      const body = await must('GET', path)
      const found = matches(body)
      if (found) return found
      assert.ok(Date.now() < end, `${path}: ${JSON.stringify(body).slice(0, 2000)}`)
    }
  }
  const endpoint = (name, provider, destinations, more) => must('POST', '/v1/endpoints', { name, provider, ...more,
    verification: { secret: secrets[provider] },
    destinations: destinations.map((name) => ({ name, url: applications.at(`${name}.internal`, `/webhooks/${provider}`) })) })
  // Alerts would say the same again, each in its own time.
  const { rules } = await must('GET', '/v1/alerts')
  await must('PATCH', '/v1/alerts', { rules: Object.fromEntries(Object.keys(rules).map((name) => [name, { enabled: false }])) })
  applications.down.add('ci.internal').add('warehouse.internal')
  const billing = await endpoint('Stripe billing', 'stripe', ['ledger', 'receipts'])
  const deploys = await endpoint('GitHub deployments', 'github', ['ci', 'status-page'])
  const shop = await endpoint('Shopify storefront', 'shopify', ['warehouse'], { retry_policy: { strategy: 'none' } })

  const drain = await must('POST', '/v1/drains', { name: 'production' })
  const leak = async ([app, count, msg]) => {
    const body = `${JSON.stringify({ app, env: 'production', level: 'error', msg })}\n`.repeat(count)
    assert.equal((await fetch(drain.url, { method: 'POST', headers: { 'User-Agent': 'vector/0.41' }, body })).status, 202)
  }
  for (const each of leaks) await leak(each)
  await until('/v1/findings', ({ data }) => data.length === leaks.length)

  // An outage of the warehouse, then its recovery as far as the canary.
  const orders = 240
  for (let n = 0; n < orders; n++) assert.equal(await send(shop, n), 200)
  await until('/v1/overview', (o) => o.traffic?.last_hour.failed >= orders)
  applications.down.delete('warehouse.internal')
  await page.goto(`${relay.url}/app/recoveries/new?endpoint_id=${shop.id}`)
  await page.getByRole('button', { name: 'Prepare', exact: true }).click()
  await page.getByRole('button', { name: 'Send a canary of 5' }).click()
  await page.getByRole('button', { name: `Continue with ${orders - 5}` }).waitFor()
  const recovery = new URL(page.url()).pathname

  // Traffic, until the breaker of the builds is open. Then the ledger stops too.
  const end = Date.now() + minutes * 60_000
  const isHeld = async () => (await must('GET', '/v1/overview')).needs.destinations.data.some((d) => d.state === 'held')
  for (let n = 1; Date.now() < end || n % 20 || !(await isHeld()); n++) {
    if (n % 12 === 0) applications.fail = 'ledger.internal' // one request
    if (n % 400 === 0) await leak(leaks[n / 400 % leaks.length])
    await Promise.all([send(billing, n), n % 2 && send(deploys, n), n % 3 && send(shop, orders + n)])
    await delay(minutes ? 220 + 120 * Math.sin(Date.now() / 90_000) + 60 * Math.random() : 500)
  }
  const { data: seen } = await must('GET', '/v1/findings?rule=google-api-key,github-token')
  for (const { id } of seen) await must('PATCH', `/v1/findings/${id}`, { status: 'acknowledged' })
  assert.equal(await send(deploys, 0, `${secrets.github}\n`), 401) // a secret from a file that ends with a newline
  const rejected = await until(`/v1/events?endpoint_id=${deploys.id}&status=rejected`, ({ data }) => data[0]?.id)
  applications.down.add('ledger.internal')
  const sent = new Date().toISOString()
  assert.equal(await send(billing, 0), 200)
  const retrying = await until(`/v1/events?endpoint_id=${billing.id}&status=retrying&since=${sent}`, ({ data }) => data[0]?.id)
  await until('/v1/issues?status=open', ({ data }) => data.length > 0)
  const portal = await seedPortal({ must, until, applications, page })
  return [
    { name: 'overview', path: '/app', height: 916, ready: 'held after repeated failures' },
    { name: 'event', path: `/app/events/${retrying}`, height: 880, ready: 'Attempt 2' },
    { name: 'signature', path: `/app/events/${rejected}?signature=1`, height: 760, ready: 'secret_whitespace' },
    { name: 'recovery', path: recovery, height: 916, ready: 'Continue with' },
    { name: 'findings', path: '/app/findings', height: 560, ready: 'Stripe live secret key' },
    { name: 'portal', path: portal, height: 720, ready: '503 Service Unavailable' },
  ]
}

// seedPortal makes a tenant with a failing destination, opens the portal of it, and returns the path of an event.
async function seedPortal({ must, until, applications, page }) {
  const tenant = '/v1/tenants/customer-42'
  await must('PUT', tenant, { name: 'Example Ltd', portal: { title: 'Acme webhooks', color: '#0b6e4f' } })
  const { url } = await must('POST', `${tenant}/portal_links`, { can: ['destinations', 'secrets', 'replay', 'test'] })
  const { endpoint_id: endpoint } = await must('GET', tenant)
  applications.down.add('hooks.example.com')
  await must('POST', `/v1/endpoints/${endpoint}/destinations`, { url: applications.at('hooks.example.com', '/acme') })
  const { id } = await must('POST', `${tenant}/events`, { type: 'order.paid', data: { order_id: '1042', total: 129.9 } })
  await until(`/v1/events/${id}`, ({ attempts }) => attempts?.length > 0)
  await page.goto(url)
  await page.getByRole('button', { name: 'Open' }).click()
  await page.getByRole('heading', { name: 'Destinations' }).waitFor()
  return `/portal/events/${id}`
}
