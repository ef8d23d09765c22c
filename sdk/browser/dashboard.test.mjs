// The dashboard as people use it. All tests share one relay; the first one chooses the password of its person.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { call, choosePassword, createEndpoint, invite, password, post, signIn } from './dashboard.mjs'
import { startReceiver } from './receiver.mjs'
import { startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
const first = 'dev@localhost'

let relay, receiver, browser

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found');
  [relay, receiver, browser] = await Promise.all([startRelay(), startReceiver(), openBrowser()])
})

after(async () => {
  await Promise.all([browser?.close(), relay?.stop(), receiver?.stop()])
})

// open opens a page in which nobody is signed in; close fails if the page had a fault.
async function open(options) {
  const { page, faults } = await openPage(browser, relay.url, options)
  const close = async () => {
    assert.deepEqual(faults, [])
    await page.close()
  }
  return { page, faults, close }
}

// journey takes a person who is signed in from an endpoint to an event and its attempts.
async function journey(page, { provider, name }) {
  const ingestURL = await createEndpoint(page, relay.url, { provider, name, destination: `${receiver.url}/orders` })
  assert.equal(await post(ingestURL, provider, '{"type":"push","id":1}'), 200)
  await page.getByText('It arrived and was delivered.').waitFor()

  await page.goto(`${relay.url}/app/events?tail=1`)
  const rows = page.locator('#rows tbody tr').filter({ hasText: name })
  await rows.filter({ hasText: 'delivered' }).waitFor()
  assert.equal(await post(ingestURL, provider, '{"type":"push","id":2}', 'the wrong secret of all'), 401)
  await rows.filter({ hasText: 'signature' }).waitFor() // the list follows
  assert.equal(await rows.count(), 2)
}

// makeKey creates a key, uses and revokes it.
async function makeKey(page, name) {
  await page.goto(`${relay.url}/app/settings/keys`)
  await page.getByLabel(/^Name/).fill(name)
  await page.getByRole('button', { name: 'Create key' }).click()
  const key = await page.locator('#new-key').innerText()
  assert.match(key, /^rly_live_/)
  assert.equal((await call({ ...relay, key }, 'GET', '/v1/me')).status, 200)
  await page.getByRole('link', { name: 'I have stored it' }).click()
  await page.getByRole('button', { name: `Revoke ${name}` }).click()
  await page.getByLabel(`Type ${name} to confirm`).fill(name)
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Revoked. The key works on no node any more.').waitFor()
  assert.equal((await call({ ...relay, key }, 'GET', '/v1/me')).status, 401)
}

test('from the printed link to an event, its attempts and a key', { skip }, async () => {
  const { page, close } = await open()
  await choosePassword(page, relay.link)
  await journey(page, { provider: 'GitHub', name: 'pushes' })
  await makeKey(page, 'a server')
  await close()
})

test('the same without JavaScript, as a person who was invited', { skip }, async () => {
  const inviting = await open()
  await signIn(inviting.page, relay.url, first)
  const link = await invite(inviting.page, relay.url, 'ops@example.com')
  await inviting.close()

  const { page, close } = await open({ javaScriptEnabled: false })
  await choosePassword(page, link)
  await journey(page, { provider: 'Another signature (HMAC)', name: 'orders' })
  await makeKey(page, 'a second server')
  await close()
})
