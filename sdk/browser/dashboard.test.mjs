// The dashboard as people use it. All tests share one relay and run at the same time: much of theirs is waiting for pages
// that follow what happens.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { checkAccessible, checkWidths, schemesOf } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { call, choosePassword, createEndpoint, invite, password, post, signIn } from './dashboard.mjs'
import { hostile, seed } from './pages.mjs'
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
  const { page, close } = await open()
  await choosePassword(page, relay.link)
  await close()
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

  await rows.filter({ hasText: 'signature' }).getByRole('link').click()
  await page.getByRole('heading', { name: 'Signature', exact: true }).waitFor()
  await page.getByText('No usual mistake explains the signature').waitFor()
  await page.goto(`${relay.url}/app/events`)
  await rows.filter({ hasText: 'delivered' }).getByRole('link').click()
  const attempt = page.locator('details').filter({ hasText: 'Attempt 1' }).last()
  if (!(await attempt.isVisible())) {
    await page.locator('summary').filter({ hasText: new URL(receiver.url).host }).first().click() // its delivery
  }
  await attempt.getByText('204').first().waitFor()
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

// focusOn presses Tab until the element has the focus, and fails if it cannot be seen there.
async function focusOn(page, element) {
  await element.waitFor()
  for (let i = 0; i < 60 && !(await element.evaluate((e) => e === document.activeElement)); i++) {
    await page.keyboard.press('Tab')
  }
  const { focused, outline } = await element.evaluate((e) => ({
    focused: e === document.activeElement,
    outline: getComputedStyle(e).outlineStyle,
  }))
  assert.ok(focused, `Tab does not reach ${element}`)
  assert.notEqual(outline, 'none', `the focus on ${element} is not visible`)
}

describe('the dashboard', { skip, concurrency: true }, () => {
  test('from an endpoint to an event, its attempts and a key', async () => {
    const { page, close } = await open()
    await signIn(page, relay.url, first)
    await journey(page, { provider: 'GitHub', name: 'journey' })
    await makeKey(page, 'a server')
    await close()
  })

  test('the same without JavaScript, as a person who was invited', async () => {
    const inviting = await open()
    await signIn(inviting.page, relay.url, first)
    const link = await invite(inviting.page, relay.url, 'ops@example.com')
    await inviting.close()

    const { page, close } = await open({ javaScriptEnabled: false })
    await choosePassword(page, link)
    await journey(page, { provider: 'Another signature (HMAC)', name: 'without script' })
    await makeKey(page, 'a second server')
    await close()
  })

  test('a key is made once, and going back does not show it', async () => {
    const { page } = await open()
    await signIn(page, relay.url, first)
    await page.goto(`${relay.url}/app/settings/keys`)
    await page.getByLabel(/^Name/).fill('twice')
    await page.getByRole('button', { name: 'Create key' }).dblclick()
    await page.locator('#new-key').waitFor()
    await page.getByRole('link', { name: 'About' }).click()
    await page.getByRole('heading', { name: 'This installation' }).waitFor()
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('heading', { name: 'New key' }).waitFor()
    assert.equal(await page.getByRole('button', { name: 'Revoke twice' }).count(), 1)
    await page.goBack()
    // Chromium has not kept the page with the key (no-store), and asks before it sends the form again.
    await assert.rejects(page.goBack(), /ERR_CACHE_MISS/)
    await page.close() // going back was a fault
  })

  test('the keyboard alone signs in, creates an endpoint and makes a key', async () => {
    const { page, close } = await open()
    const type = async (label, text) => {
      await focusOn(page, page.getByLabel(label))
      await page.keyboard.type(text)
    }
    const press = async (role, name) => {
      await focusOn(page, page.getByRole(role, { name }))
      await page.keyboard.press('Enter')
    }
    await page.goto(`${relay.url}/app/settings/keys`) // leads to the sign-in page and back
    await type('E-mail', first)
    await type('Password', password)
    await page.keyboard.press('Enter')
    await type(/^Name/, 'by keyboard')
    await press('button', 'Create key')
    await press('link', 'I have stored it')
    await press('button', 'Revoke by keyboard')
    await page.getByLabel('Type by keyboard to confirm').waitFor()
    await type('Type by keyboard to confirm', 'by keyboard')
    await page.keyboard.press('Enter')
    await page.getByText('Revoked. The key works').waitFor()
    await press('link', 'Endpoints')
    await press('link', 'New endpoint')
    await press('link', 'No signature')
    await type(/^Name/, 'by keyboard')
    await type(/^Destination URL/, `${receiver.url}/orders`)
    await press('button', 'Create endpoint')
    await page.getByText('It is shown now and never again').waitFor()
    await focusOn(page, page.locator('main a.go'))
    await page.keyboard.press('Enter')
    await page.getByText('Waiting for the first request').waitFor()
    await close()
  })

  test('every page is accessible, fits narrow and wide windows, and runs no text of others', async () => {
    const { page, faults, close } = await open()
    let number = 0
    const check = async (name) => {
      for (const colorScheme of schemesOf(number++)) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        await checkAccessible(page, `${name} (${colorScheme})`)
      }
      await checkWidths(page, name)
      await page.setViewportSize({ width: 1280, height: 900 })
      assert.equal(await page.evaluate(() => window.hurt), undefined, `${name} has run a text`)
      const expected = name === 'not-found' ? faults.splice(0) : []
      assert.ok(expected.every((text) => text.includes('404')), expected.join())
      assert.deepEqual(faults, [], name)
    }
    await page.goto(`${relay.url}/app`)
    await check('sign-in')
    await signIn(page, relay.url, first)
    for (const { name, path } of await seed(relay, receiver, hostile)) {
      await page.goto(relay.url + path)
      await check(name)
    }
    await close()
  })
})
