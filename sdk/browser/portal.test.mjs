// The portal for the people of a tenant: without scripts, and in a frame of an application on another site.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { checkAccessible, checkWidths, schemes } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { call, reloadUntil, told } from './dashboard.mjs'
import { startReceiver } from './receiver.mjs'
import { freePort, startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
const rights = ['destinations', 'secrets', 'replay', 'test']

let relay, receiver, browser, application

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found')
  const port = await freePort();
  [relay, receiver, browser] = await Promise.all([startRelay({ RELAY_PORTAL_ORIGINS: `http://localhost:${port}` }),
    startReceiver(), openBrowser()])
  application = await startApplication(relay.url, relay.key, port)
})

after(async () => {
  await Promise.all([browser?.close(), relay?.stop(), receiver?.stop(), application?.stop()])
})

// startApplication starts an example on localhost. To browsers that and 127.0.0.1, where the relay is, are two sites.
async function startApplication(relayURL, key, port) {
  const child = spawn('node', [fileURLToPath(new URL('../examples/javascript/portal.mjs', import.meta.url))],
    { env: { ...process.env, RELAY_BASE_URL: relayURL, RELAY_API_KEY: key, PORT: port }, stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const line of child.stdout) if (String(line).startsWith('open ')) break
  return { url: `http://localhost:${port}`, stop: () => child.kill() }
}

async function newLink(tenant) {
  const { status, body } = await call(relay, 'POST', `/v1/tenants/${tenant}/portal_links`,
    { can: rights, return_url: `${application.url}/?customer=back`, refresh_url: `${application.url}/?customer=again` })
  assert.equal(status, 201)
  return body.url
}

test('a customer adds a failing destination, mends it and has the event sent again, without scripts', { skip }, async () => {
  await call(relay, 'PUT', '/v1/tenants/plain', { name: 'Example Ltd', portal: { title: 'Shop webhooks', color: '#7a1fa2' } })
  const link = await newLink('plain')
  const { body: tenant } = await call(relay, 'GET', '/v1/tenants/plain')
  await call(relay, 'PATCH', `/v1/endpoints/${tenant.endpoint_id}`, { retry_policy: { strategy: 'none' } })
  const { page, faults } = await openPage(browser, relay.url, { javaScriptEnabled: false })
  await page.goto(link)
  await page.getByRole('button', { name: 'Open' }).click()
  await page.getByRole('link', { name: 'Add a destination' }).first().click()
  await page.getByLabel('URL').fill(`${receiver.url}/down`)
  await page.getByRole('button', { name: 'Add destination' }).click()
  const secret = await page.locator('[data-once]').innerText()
  assert.match(secret, /^whsec_/)
  const sent = await call(relay, 'POST', '/v1/tenants/plain/events', { type: 'order.paid', data: { id: 1 } })
  assert.equal(sent.status, 202)
  await page.getByRole('link', { name: 'Destinations' }).first().click()
  await reloadUntil(page, page.getByText(/answered 500|500/).first())
  await page.getByRole('link', { name: 'order.paid' }).click()
  await page.getByText('500 Internal Server Error').first().waitFor()
  await page.getByRole('link', { name: 'Settings of this destination' }).click()
  await page.getByLabel('URL').fill(`${receiver.url}/ok`)
  await page.getByRole('button', { name: 'Save' }).click()
  await told(page, 'Saved')
  await page.getByRole('button', { name: 'Show the secret' }).click()
  assert.equal(await page.locator('[data-once]').innerText(), secret)
  await page.getByRole('link', { name: 'order.paid' }).click()
  await page.getByRole('button', { name: 'Send it again' }).click()
  await page.getByRole('button', { name: 'Send again' }).click()
  await reloadUntil(page, page.getByText('204 No Content').first())
  assert.deepEqual(faults, [])
  await page.getByRole('button', { name: 'Back' }).click()
  await page.getByText('Webhooks of back').waitFor()
  await page.goBack()
  await page.goto(`${relay.url}/portal`)
  await page.getByText('Webhooks of again').or(page.getByText('Open it again')).first().waitFor()
})

test('the portal in a frame of a listed application, and of no other', { skip }, async () => {
  const { page } = await openPage(browser, application.url)
  await page.goto(`${application.url}/?customer=framed`)
  const frame = page.frameLocator('iframe')
  await frame.getByRole('heading', { name: 'Destinations' }).waitFor()
  await frame.getByRole('link', { name: 'Add a destination' }).first().click()
  await frame.getByLabel('URL').fill(`${receiver.url}/json`)
  await frame.getByRole('button', { name: 'Add destination' }).click()
  await frame.locator('[data-once]').waitFor()
  await page.waitForFunction(() => Number(document.querySelector('iframe').height) > 700)
  await page.getByRole('link', { name: 'Place an order' }).click()
  await frame.getByRole('link', { name: 'Events' }).click()
  await frame.getByText('order.paid').waitFor()

  const link = await newLink('framed')
  const stranger = application.url.replace('localhost', '127.0.0.1')
  const { page: other, faults } = await openPage(browser, stranger)
  await other.setContent(`<iframe src="${link}"></iframe>`)
  await other.waitForTimeout(1000)
  assert.equal(await other.frameLocator('iframe').getByRole('button').count(), 0)
  assert.ok(faults.some((text) => text.includes('frame-ancestors')), faults.join('\n'))
})

test('every page of the portal is accessible and fits', { skip }, async () => {
  await call(relay, 'PUT', '/v1/tenants/pages', { portal: { color: '#ffee00' } })
  await newLink('pages') // makes the endpoint
  const { body: tenant } = await call(relay, 'GET', '/v1/tenants/pages')
  const { body: d } = await call(relay, 'POST', `/v1/endpoints/${tenant.endpoint_id}/destinations`,
    { url: `${receiver.url}/down/${'long-path-'.repeat(12)}`, filter: { types: ['order.*', 'invoice.paid'] } })
  const { body: sent } = await call(relay, 'POST', '/v1/tenants/pages/events', { type: 'order.paid', data: { id: 1 } })
  const type = 'order.with_a_very_long_name_'.repeat(4)
  assert.equal((await call(relay, 'PUT', `/v1/event_types/${type}`, { description: 'Long '.repeat(40), schema: { type: 'object' }, example: { a: 'x'.repeat(400) } })).status, 200)
  for (const [colorScheme, locale] of [[schemes[0], 'de-DE'], [schemes[1], 'ja-JP']]) {
    const { page, faults } = await openPage(browser, relay.url, { colorScheme, locale, timezoneId: 'Europe/Berlin' })
    await page.goto(await newLink('pages'))
    await checkAccessible(page, `link (${colorScheme})`)
    await page.locator('form button').click()
    await page.locator('main .head').waitFor()
    assert.equal(await page.locator('html').getAttribute('lang'), locale.slice(0, 2))
    assert.match(await page.locator('footer').innerText(), /Europe.Berlin/)
    for (const path of ['', '/destinations/new', '/event-types', `/event-types/${type}`, `/endpoints/${tenant.endpoint_id}/destinations/${d.id}`, '/events',
      `/events/${sent.id}`, '/requests']) {
      await page.goto(`${relay.url}/portal${path}`)
      if (process.env.RELAY_PICTURES) {
        await page.screenshot({ path: `${process.env.RELAY_PICTURES}/portal${path.replaceAll('/', '_')}-${colorScheme}.png`, fullPage: true })
      }
      await checkAccessible(page, `portal${path} (${colorScheme})`)
      await checkWidths(page, `portal${path}`, '.card, .tabs')
      await page.setViewportSize({ width: 1280, height: 900 })
    }
    assert.deepEqual(faults, [])
  }
})

test('a page of a listed application calls the API with a token of the portal, and no other page can', { skip }, async () => {
  await call(relay, 'PUT', '/v1/tenants/headless', {})
  const { body: { token } } = await call(relay, 'POST', '/v1/tenants/headless/portal_links', { use: 'api', can: ['destinations'] })
  const run = async ([base, token, url]) => {
    const ask = async (method, path, body) => {
      const response = await fetch(base + path, { method, body: body && JSON.stringify(body), headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' } })
      return { status: response.status, ...await response.json() }
    }
    const { data: [endpoint] } = await ask('GET', '/v1/endpoints')
    const made = await ask('POST', `/v1/endpoints/${endpoint.id}/destinations`, { url })
    return [made.status, (await ask('PATCH', `/v1/endpoints/${endpoint.id}/destinations/${made.id}`, { enabled: false })).state, (await ask('POST', '/v1/replays', {})).status]
  }
  const { page } = await openPage(browser, application.url)
  await page.goto(`${application.url}/?customer=other`)
  assert.deepEqual(await page.evaluate(run, [relay.url, token, `${receiver.url}/json`]), [201, 'disabled', 403])
  const { page: stranger } = await openPage(browser, relay.url)
  await stranger.route('http://stranger.example/', (route) => route.fulfill({ contentType: 'text/html', body: '<p>' }))
  await stranger.goto('http://stranger.example/')
  await assert.rejects(stranger.evaluate(run, [relay.url, token, `${receiver.url}/json`]), /Failed to fetch/)
})
