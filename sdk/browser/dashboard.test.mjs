// The dashboard as people use it. All tests share one relay and run four at a time: half of theirs is waiting for pages
// that follow what happens, and more of them would starve each other.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { all, checkAccessible, checkWidths, schemesOf } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { call, choosePassword, createEndpoint, invite, leave, password, patience, post, providers, reloadUntil, signIn, told } from './dashboard.mjs'
import { deliver, seed, seedHostile } from './pages.mjs'
import { hostile, startReceiver } from './receiver.mjs'
import { startRelay, storeOf } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
const first = 'dev@localhost'

let relay, receiver, browser
let session // of the first person, as an option of open

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found');
  [relay, receiver, browser] = await Promise.all([startRelay(), startReceiver(), openBrowser()])
  const { page, close } = await open()
  await choosePassword(page, relay.link)
  session = { storageState: await page.context().storageState() }
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

// follow waits for what a page shows by itself or, without scripts, after its link.
async function follow(page, element) {
  const again = page.getByRole('link', { name: 'Reload this page' })
  for (let tries = 30; tries > 0 && await again.isVisible(); tries--) {
    try {
      return await element.waitFor({ timeout: 4_000 })
    } catch {
      await again.click()
    }
  }
  await element.waitFor()
}

// journey takes a person who is signed in from an endpoint to an event and its attempts.
async function journey(page, { provider, name }) {
  const ingestURL = await createEndpoint(page, relay.url, { provider, name, destination: `${receiver.url}/orders` })
  assert.equal(await post(ingestURL, provider, '{"type":"push","id":1}'), 200)
  await follow(page, page.getByText('It arrived and was delivered.'))

  await leave(page, `${relay.url}/app/events?tail=1`)
  const rows = page.locator('#rows tbody tr').filter({ hasText: name })
  await rows.filter({ hasText: 'delivered' }).waitFor()
  assert.equal(await post(ingestURL, provider, '{"type":"push","id":2}', 'the wrong secret of all'), 401)
  await rows.filter({ hasText: 'signature' }).waitFor() // the list follows: one, or this fails
  await rows.filter({ hasText: 'delivered' }).waitFor() // one too; between two pages there is none

  await rows.filter({ hasText: 'signature' }).getByRole('link').click()
  await page.getByRole('heading', { name: 'Signature', exact: true }).waitFor()
  await page.getByText('No usual mistake explains the signature').first().waitFor()
  await page.goto(`${relay.url}/app/events`)
  const delivered = rows.filter({ hasText: 'delivered' }).getByRole('link')
  await reloadUntil(page, delivered)
  await delivered.click()
  await reloadUntil(page, page.locator('.tl summary').first().getByText('204'))
}

// inspect reads an event that was delivered once: its attempts, its body and its signature, and replays it. act
// activates a control.
async function inspect(page, act) {
  await reloadUntil(page, page.locator('.tl summary').first())
  await act(page.locator('.tl summary').first())
  await page.getByText(`POST ${receiver.url}/orders`).waitFor()
  await act(page.getByRole('link', { name: 'Hex' }))
  await reloadUntil(page, page.getByText('00000000  7b 22'))
  await act(page.getByRole('link', { name: 'Raw' }))
  await reloadUntil(page, page.getByText('{"type":"push"').filter({ visible: true }).first())
  await act(page.getByRole('link', { name: 'explain' }))
  await reloadUntil(page, page.getByText('it matches'))
  await act(page.getByRole('button', { name: 'Replay' }))
  await act(page.locator('#dlg-replay').getByRole('button', { name: 'Replay' }))
  await told(page, 'Queued one delivery.')
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
  await told(page, 'Revoked. The key works on no node any more.')
  assert.equal((await call({ ...relay, key }, 'GET', '/v1/me')).status, 401)
}

// leak sets a log drain up, sends a line with a test key to it, sees that it arrived, finds the leak, and resolves it with
// two clicks from the list.
async function leak(page, name) {
  await page.goto(`${relay.url}/app/drains`)
  await page.getByLabel(/^Name/).fill(name)
  await page.getByRole('button', { name: 'Create drain' }).click()
  await page.getByText('Waiting for the first line.').waitFor()
  await page.getByText('the current URL then answers 404 immediately').waitFor() // said before somebody rotates it
  const drain = await page.locator('code.url').innerText()
  const testKey = /rly_test_\w+/.exec(await page.locator('figure.code').filter({ hasText: 'rly_test_' }).innerText())[0]
  const line = JSON.stringify({ app: name, level: 'error', msg: `failed with ${testKey}` })
  const { status } = await fetch(drain, { method: 'POST', body: line })
  assert.equal(status, 202)
  await follow(page, page.getByRole('link', { name: 'Show findings' }))
  await page.getByRole('link', { name: 'Show findings' }).click()
  const row = page.locator('tbody tr').filter({ hasText: name })
  await row.getByRole('link').click()
  await page.getByText('Still leaking', { exact: true }).waitFor()
  await page.locator('#occurrences tbody tr').filter({ hasText: name }).waitFor()
  assert.ok(!(await page.content()).includes(testKey), 'the page shows the secret')
  await page.getByRole('button', { name: 'Resolve as revoked' }).click()
  await told(page, 'Resolved. It reopens by itself')
  assert.equal(await page.getByText('Still leaking', { exact: true }).count(), 0)
  await page.goto(`${relay.url}/app/findings?source=drain`)
  await page.getByRole('heading', { name: 'Findings', exact: true }).waitFor()
  assert.equal(await row.count(), 0)
  await page.goto(`${relay.url}/app/findings?status=resolved&source=drain`)
  await row.getByText('resolved').waitFor()
}

// keyboard uses a page without a pointer.
const keyboard = {
  async press(page, control) {
    await focusOn(page, control)
    await page.keyboard.press('Enter')
  },
  async tick(page, box) {
    await focusOn(page, box)
    await page.keyboard.press('Space')
  },
  async enter(page, field, text) {
    await focusOn(page, field)
    await page.keyboard.press('Control+A')
    await page.keyboard.type(text)
  },
  async choose(page, select, label) {
    await focusOn(page, select)
    const isChosen = () => select.evaluate((e, label) => e.selectedOptions[0].text === label, label)
    for (let i = 0; i < 20 && !(await isChosen()); i++) {
      await page.keyboard.press('ArrowDown')
    }
  },
}

// makeFixture makes a fixture of an event with secrets, edits it, exports it, and runs the file against
// a test system with the runner that the relay serves.
async function makeFixture(page, name) {
  const by = keyboard
  const { body: endpoint } = await call(relay, 'POST', '/v1/endpoints', {
    name, provider: 'generic', type_source: 'body:$.type', destinations: [`${receiver.url}/orders`],
  })
  const secret = ['sk', 'live', 'q8ZkT2vN4xW7yR1mB5cJ9dL3'].join('_')
  const sent = { type: 'customer.subscription.created', to: 'jane.doe@acme.io', phone: '+4915112345678', key: secret }
  const headers = { 'Content-Type': 'application/json' }
  assert.equal((await fetch(endpoint.ingest_url, { method: 'POST', headers, body: JSON.stringify(sent) })).status, 200)

  await leave(page, `${relay.url}/app/events?endpoint_id=${endpoint.id}`)
  const [event, make] = [page.getByRole('link', { name: sent.type }).first(), page.getByRole('button', { name: 'Make a fixture' })]
  await reloadUntil(page, event)
  await by.press(page, event)
  await reloadUntil(page, make)
  await by.press(page, make)
  await page.getByText('The copy is made and sanitised.').waitFor()
  const rows = page.locator('#f-keep tbody tr')
  await rows.filter({ hasText: '/key' }).getByText('never').waitFor()
  await rows.filter({ hasText: '/to' }).getByText('user1@example.com').waitFor()
  await by.tick(page, page.getByLabel('Keep /phone'))
  await by.enter(page, page.getByLabel('Name'), name)
  await by.enter(page, page.getByLabel('Status'), '200')
  await by.enter(page, page.getByLabel('Required fields of the answer'), '/ok = true\n/id : string')
  await by.choose(page, page.getByLabel('Expires'), 'In 1\u00a0day')
  await by.press(page, page.getByRole('button', { name: 'Save' }))
  await told(page, 'Saved as version 2')
  for (const text of [secret, sent.to]) assert.ok(!(await page.content()).includes(text), `the page shows ${text}`)

  await page.goto(`${relay.url}/app/fixtures`)
  await by.tick(page, page.getByLabel(`Export ${name}`, { exact: true }))
  const [download] = await Promise.all([
    page.waitForEvent('download'), by.press(page, page.getByRole('button', { name: 'Export the chosen ones' }))])
  const directory = await mkdtemp(join(tmpdir(), 'relay-fixture-'))
  try {
    const [file, runner] = [join(directory, 'fixtures.json'), join(directory, 'relay-fixture-run.mjs')]
    await download.saveAs(file)
    await writeFile(runner, await (await fetch(`${relay.url}/tools/relay-fixture-run.mjs`)).text())
    const exported = await readFile(file, 'utf8')
    for (const text of [secret, sent.to]) assert.ok(!exported.includes(text), `the file has ${text}`)
    const [{ body, expires_at: expires }] = JSON.parse(exported).fixtures
    assert.equal(body.phone, sent.phone)
    assert.ok(Date.parse(expires) <= Date.now() + 86_400_000, `it expires at ${expires}`)
    const run = (path) => promisify(execFile)(process.execPath,
      [runner, file, '--target', receiver.url + path, '--confirm-test-target'])
    assert.match((await run('/json')).stdout, /^PASS .*\n1 passed, 0 failed/)
    await assert.rejects(run('/orders'), (error) => error.code === 1 && error.stdout.startsWith('FAIL '))
  } finally {
    await rm(directory, { recursive: true })
  }
}

// focusOn presses Tab, or Shift and Tab, until the element has the focus, and fails if it cannot be seen there. At the
// beginning of a page it skips the navigation.
async function focusOn(page, element) {
  await element.waitFor()
  if (await element.evaluate((e) => document.activeElement === document.body && document.querySelector('main').contains(e))) {
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
  }
  for (let i = 0; i < 200; i++) {
    // Both in one step: a list that follows what happens may replace the element between two.
    const { key, outline } = await element.evaluate((e) => {
      const active = document.activeElement
      if (active === e) return { outline: getComputedStyle(e).outlineStyle }
      return { key: active.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_PRECEDING ? 'Shift+Tab' : 'Tab' }
    })
    if (!key) {
      assert.notEqual(outline, 'none', `the focus on ${element} is not visible`)
      return
    }
    await page.keyboard.press(key)
  }
  assert.fail(`Tab does not reach ${element}`)
}

describe('the dashboard', { skip, concurrency: 4 }, () => {
  test('from an endpoint to an event, its attempts and a key', async () => {
    const { page, close } = await open()
    await signIn(page, relay.url, first)
    await journey(page, { provider: 'GitHub', name: 'steps with scripts' })
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
    await journey(page, { provider: 'Another signature (HMAC)', name: 'steps by forms' })
    await makeKey(page, 'a second server')
    await close()
  })

  test('from a log drain to a finding that is resolved', async () => {
    const { page, close } = await open(session)
    await leak(page, 'journey of a leak')
    await close()
  })

  test('the keyboard alone makes a fixture of a received event, whose file then passes', async () => {
    const { page, close } = await open(session)
    await makeFixture(page, 'fixture by keyboard')
    await close()
  })

  test('a refused form shows the field at fault, and a purge asks with its number', async () => {
    const { page, faults, close } = await open(session)
    const { body: endpoint } = await call(relay, 'POST', '/v1/endpoints',
      { name: 'refused and purged', destinations: [{ url: `${receiver.url}/purged`, name: 'purged' }] })
    const [destination] = endpoint.destinations
    await page.goto(`${relay.url}/app/endpoints/${endpoint.id}/destinations/${destination.id}/settings`)
    const field = page.getByLabel('Headers')
    await field.fill('no colon')
    await page.getByRole('button', { name: 'Save destination' }).click()
    await page.getByText('Not saved. Headers: Line 1 must be a name').waitFor()
    const shown = await field.evaluate((element) => {
      const [error, hint] = element.parentElement.querySelectorAll('small')
      const colour = (of) => getComputedStyle(of).color
      return { focus: document.activeElement === element, border: getComputedStyle(element).borderTopColor,
        error: colour(error), hint: colour(hint) }
    })
    assert.deepEqual([shown.focus, shown.border], [true, shown.error], JSON.stringify(shown))
    assert.notEqual(shown.error, shown.hint)
    assert.match(faults.splice(0).join('\n'), /^[^\n]*status of 400[^\n]*$/) // of the refused form
    await call(relay, 'PATCH', `/v1/endpoints/${endpoint.id}/destinations/${destination.id}`, { paused: true })
    for (let n = 0; n < 2; n++) {
      await call(relay, 'POST', `/v1/endpoints/${endpoint.id}/events`, { type: 'order.paid', data: { n } })
    }
    await page.getByRole('button', { name: 'Purge open deliveries' }).click()
    await reloadUntil(page, page.getByRole('button', { name: 'Purge 2 deliveries' }))
    await page.getByRole('button', { name: 'Purge 2 deliveries' }).click()
    await page.getByText('Purged. Open deliveries end as skipped.').waitFor()
    await close()
  })

  test('a secret is shown once: not by a second click, and not by going back', async () => {
    const context = await browser.newContext(session)
    context.setDefaultTimeout(patience)
    // goBack leaves the page. Chromium has not kept it (no-store), and asks before it sends the form again.
    const goBack = async (page) => {
      await page.goto('about:blank')
      await assert.rejects(page.goBack(), /ERR_CACHE_MISS/)
    }
    const key = async (page) => {
      await page.goto(`${relay.url}/app/settings/keys`)
      await page.getByLabel(/^Name/).fill('twice')
      await page.getByRole('button', { name: 'Create key' }).dblclick()
      assert.match(await page.locator('#new-key').innerText(), /^rly_live_/)
      await page.getByRole('button', { name: 'Revoke twice' }).waitFor() // one, or this fails
      await goBack(page)
    }
    const endpoint = async (page) => {
      await page.goto(`${relay.url}/app/endpoints/new?provider=generic`)
      await page.getByLabel(/^Destination URL/).fill(`${receiver.url}/orders`)
      await page.getByRole('button', { name: 'Create endpoint' }).click()
      assert.match(await page.locator('.card.new .url').innerText(), /^whsec_/)
      await goBack(page)
    }
    const person = async (page) => {
      assert.match(await invite(page, relay.url, 'once@example.com'), /\/app\/link\//)
      // Browsers can keep a whole page in memory, for going back: it has no secret any more when it is left.
      await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
      assert.equal(await page.locator('#new-link').innerText(), 'It was shown once.')
      await goBack(page)
    }
    await Promise.all([key, endpoint, person].map(async (make) => make(await context.newPage())))
    await context.close()
  })

  test('a page that cannot follow what happens says since when', async () => {
    const { page, faults } = await open(session)
    const { body } = await call(relay, 'POST', '/v1/endpoints', { url: `${receiver.url}/orders` })
    await page.goto(`${relay.url}/app/endpoints/${body.id}/wait`)
    await page.route('**/wait', (route) => route.abort())
    await page.getByText(/^No answer since \d\d:\d\d:\d\d UTC/).waitFor()
    await page.unroute('**/wait')
    await page.getByText(/^No answer since/).waitFor({ state: 'detached' })
    assert.ok(faults.every((text) => text.includes('ERR_FAILED')), faults.join())
    await page.close()
  })

  test('a click counts though the page changes while the button is down', async () => {
    const { page, close } = await open(session)
    const { id } = await deliver(relay, receiver, 'pressed')
    await page.goto(`${relay.url}/app/endpoints/${id}/wait`)
    const link = page.getByRole('link', { name: 'Show the event' })
    await follow(page, link)
    // From here on the page changes when told to, and to this only: a slow relay may answer that it cannot read.
    const part = await link.evaluate((element) => element.closest('#first').outerHTML)
    const asked = []
    let notify
    await page.route('**/wait', (route) => {
      asked.push(route)
      notify?.()
    })
    const nextQuestion = async () => {
      while (asked.length === 0) {
        await new Promise((resolve) => { notify = resolve })
      }
      return asked.shift()
    }
    const change = async (text) => {
      const route = await nextQuestion()
      await route.fulfill({ contentType: 'text/html', body: part.replace('Newest event', text) })
    }
    await change('First event')
    await page.getByText('First event').waitFor()
    await link.dragTo(page.getByRole('heading', { name: 'Ingest URL' })) // is no click, and ends
    await change('Second event')
    await page.getByText('Second event').waitFor()
    await link.hover()
    await page.mouse.down()
    await change('Third event')
    await nextQuestion() // the page asks again when it has used the answer
    assert.equal(await page.getByText('Third event').count(), 0)
    await page.mouse.up()
    await page.waitForURL('**/app/events/evt_*')
    await page.unrouteAll({ behavior: 'ignoreErrors' }) // of a request that the page left behind
    await close()
  })

  test('without ClickHouse lists say so, and endpoints and keys are made', { skip: !all && 'long form only' }, async () => {
    const own = await startRelay()
    let store
    try {
      store = await storeOf(own)
      const { page } = await openPage(browser, own.url)
      await choosePassword(page, own.link)
      process.kill(store, 'SIGSTOP')
      await page.goto(`${own.url}/app/events?tail=1`)
      await page.getByText('The event store is unavailable').waitFor()
      await page.goto(`${own.url}/app/settings/keys`)
      await page.getByLabel(/^Name/).fill('without a store')
      await page.getByRole('button', { name: 'Create key' }).click()
      await page.locator('#new-key').waitFor()
      await page.getByText('The last uses cannot be read').waitFor()
      await page.goto(`${own.url}/app/endpoints/new?provider=generic`)
      await page.getByLabel(/^Destination URL/).fill(`${receiver.url}/orders`)
      await page.getByRole('button', { name: 'Create endpoint' }).click()
      await page.getByText('It is shown now and never again').waitFor()
      await page.goto(`${own.url}/app/events?tail=1`)
      process.kill(store, 'SIGCONT')
      await page.getByText('No event yet').waitFor() // the list goes on by itself
      await page.close()
    } finally {
      if (store) process.kill(store, 'SIGCONT')
      await own.stop()
    }
  })

  test('the keyboard alone signs in, makes a key and an endpoint', async () => {
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
    await type('Email', first)
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
    await press('link', 'GitHub')
    await type(/^Name/, 'by keyboard')
    await type(/^Destination URL/, `${receiver.url}/orders`)
    await type(/^Secret of the provider/, providers.GitHub.secret)
    await press('button', 'Create endpoint')
    await page.getByText('It is shown now and never again').waitFor()
    await focusOn(page, page.locator('main a.go'))
    await page.keyboard.press('Enter')
    await page.getByText('Waiting for the first request').waitFor()
    await close()
  })

  test('the search field offers what is typed; Enter opens what is chosen, and searches otherwise', async () => {
    const { page, close } = await open(session)
    await page.goto(`${relay.url}/app`)
    const type = async (text, offer) => {
      await page.keyboard.press('Control+k')
      await page.keyboard.type(text)
      await page.getByRole('option', { name: offer }).first().waitFor()
    }
    await type('audit', 'Audit log')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.waitForURL(`${relay.url}/app/audit`)
    await type('recover', 'Recoveries')
    await page.keyboard.press('Escape')
    assert.equal(await page.getByRole('listbox').isVisible(), false)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${relay.url}/app/search?q=recover`)
    await close()
  })

  test('the keyboard alone follows events, reads one and replays it', async () => {
    const { page, close } = await open(session)
    const press = async (control) => {
      await focusOn(page, control)
      await page.keyboard.press('Enter')
    }
    const { ingestURL } = await deliver(relay, receiver, 'followed with keys') // no other name has these words
    await page.goto(`${relay.url}/app/events`)
    await press(page.getByRole('link', { name: 'Follow' }))
    await page.getByText('Following').waitFor()
    await focusOn(page, page.getByRole('link', { name: 'Pause' }))
    assert.equal(await post(ingestURL, 'GitHub', '{"type":"push","id":2}'), 200)
    const rows = page.locator('#rows tbody tr').filter({ hasText: 'followed with keys' }).filter({ hasText: 'delivered' })
    await rows.nth(1).waitFor() // the list goes on while it has the focus, and does not lose it
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Pause')
    await press(rows.first().getByRole('link'))
    await page.waitForURL(/evt_/)
    const newest = page.url()
    await page.keyboard.press('n')
    await page.waitForURL((url) => url.href !== newest && url.pathname.includes('evt_'))
    await page.keyboard.press('p')
    await page.waitForURL(newest)
    await press(page.getByRole('link', { name: 'Next', exact: true }))
    await press(page.getByRole('link', { name: 'Previous', exact: true }))
    await page.waitForURL(newest)
    await page.getByLabel('Find in the body').fill('"TYPE": "pu') // across the parts of a line
    await page.getByText('1 of 1').waitFor()
    await inspect(page, press)
    await close()
  })

  test('a chart has its values at the pointer and for the arrow keys; a drag opens the events of a time', async () => {
    const { page, close } = await open(session)
    const { id: endpoint } = await deliver(relay, receiver, 'in a chart')
    await page.goto(`${relay.url}/app/endpoints/${endpoint}?range=15m`)
    const tip = page.locator('.tip')
    const steps = page.locator('.bars a')
    await reloadUntil(page, page.locator('.bars .ok').first())
    const last = await steps.last().boundingBox()
    await page.mouse.move(last.x + last.width / 2, last.y + last.height / 2)
    await tip.getByText(/^\d\d:\d\d: /).waitFor()
    await page.mouse.move(5, 5)
    await tip.waitFor({ state: 'hidden' })
    assert.equal(await page.locator('.bars a:not([tabindex])').count(), 1)
    await focusOn(page, steps.last())
    await page.keyboard.press('ArrowLeft')
    const times = await page.locator('.chart tbody tr td:first-child').allInnerTexts()
    await tip.getByText(times.at(-2)).waitFor()
    await page.keyboard.press('Home')
    await tip.getByText(times[0]).waitFor()
    const first = await steps.nth(9).boundingBox()
    await page.mouse.move(first.x + 2, first.y + 5)
    await page.mouse.down()
    await page.mouse.move(last.x + 2, last.y + 5, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/app\/events/)
    const { searchParams } = new URL(page.url())
    assert.equal(Date.parse(searchParams.get('until')) - Date.parse(searchParams.get('since')), 6 * 60_000)
    await close()
  })

  test('ticked rows have actions, with and without JavaScript', async () => {
    for (const javaScriptEnabled of [true, false]) {
      const { page, close } = await open({ ...session, javaScriptEnabled })
      const { id: endpoint } = await deliver(relay, receiver, `ticked ${javaScriptEnabled}`)
      await page.goto(`${relay.url}/app/events?endpoint_id=${endpoint}`)
      await reloadUntil(page, page.locator('#rows tbody tr').first())
      const replay = page.getByRole('button', { name: 'Replay', exact: true })
      if (javaScriptEnabled) {
        await replay.waitFor({ state: 'hidden' })
        await page.getByLabel('Select all').check()
        await page.getByText(/^\d selected:$/).waitFor()
      } else {
        await page.getByLabel(/^Select /).first().check()
      }
      await replay.click()
      await page.getByText(/Queued|Nothing was queued/).waitFor()
      assert.ok(page.url().endsWith(`?endpoint_id=${endpoint}`), page.url())
      await close()
    }
  })

  test('all of an open event follows what happens, and what is open in it stays open', async () => {
    const { page, close } = await open(session)
    const { body: { id, destinations } } = await call(relay, 'POST', '/v1/endpoints', {
      name: 'followed event',
      destinations: [{ url: `${receiver.url}/mend/followed` }],
      retry_policy: { strategy: 'linear', interval_seconds: 3600 },
    })
    const { body: event } = await call(relay, 'POST', `/v1/endpoints/${id}/events`, { type: 'a', data: {} })
    await page.goto(`${relay.url}/app/events/${event.id}`)
    const attempts = page.locator('#deliveries .tl details[id] > summary')
    await attempts.first().focus() // it follows before there is an attempt, and while one has the focus
    await page.locator('#why').getByText('answered 500').waitFor()
    await page.getByText('1 destination, 1 attempt').waitFor()
    receiver.mend()
    await call(relay, 'POST', `/v1/events/${event.id}/replay`, { destination_id: destinations[0].id })
    await page.locator('#why').getByText('Delivered').waitFor()
    assert.equal(await attempts.count(), 2)
    await page.locator('#history').getByText('/mend/followed delivered').waitFor()
    await page.locator('#deliveries').getByText(`POST ${receiver.url}/mend/followed`).first().waitFor()
    assert.ok(await page.evaluate(() => document.activeElement.matches('summary')))
    await close()
  })

  test('the question before a replay fits a small window, and its button says where it goes', async () => {
    const { page, close } = await open({ ...session, viewport: { width: 640, height: 450 } })
    const destinations = Array.from({ length: 20 }, (_, i) => ({ name: `shop-${i}`, url: `${receiver.url}/shops/${i}` }))
    const { body: { id } } = await call(relay, 'POST', '/v1/endpoints', { name: 'twenty shops', destinations })
    const { body: event } = await call(relay, 'POST', `/v1/endpoints/${id}/events`, { type: 'a', data: {} })
    await page.goto(`${relay.url}/app/events/${event.id}`)
    await page.getByRole('button', { name: 'Replay' }).click()
    const question = page.locator('#dlg-replay')
    for (const button of ['Cancel', 'Replay to 20 destinations']) {
      const box = await question.getByRole('button', { name: button }).boundingBox()
      assert.ok(box.y >= 0 && box.y + box.height <= 450, `${button} is outside of the window: ${JSON.stringify(box)}`)
    }
    for (let i = 0; i < 19; i++) {
      await question.getByLabel(`shop-${i} `, { exact: false }).first().uncheck()
    }
    await question.getByRole('button', { name: 'Replay to shop-19' }).click()
    await told(page, 'Queued one delivery.')
    await close()
  })

  test('a text of others runs nothing, wherever it stands', async () => {
    const { page, faults } = await open(session)
    for (const path of await seedHostile(relay, receiver)) {
      await page.goto(relay.url + path).catch((error) => assert.match(error.message, /Download is starting/))
      assert.equal(await page.evaluate(() => window.hurt), undefined, path)
      assert.deepEqual(faults.splice(0).filter((text) => !/the server responded with a status of 40[045]/.test(text)), [], path)
    }
    // The reference is apart from the dashboard, also with the cookie of a session.
    await page.goto(`${relay.url}/docs`)
    assert.equal(await page.evaluate(() => fetch('/app/events', { credentials: 'include' }).catch((e) => e.name)), 'TypeError')
    await page.close()
  })

  test('every page is accessible, fits narrow and wide windows, and runs no text of others', async () => {
    const { page, faults, close } = await open()
    let number = 0
    const check = async (name) => {
      for (const colorScheme of schemesOf(number++)) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        await checkAccessible(page, `${name} (${colorScheme})`)
      }
      await checkWidths(page, name, '.card, .tabs')
      await page.setViewportSize({ width: 1280, height: 900 })
      assert.equal(await page.evaluate(() => window.hurt), undefined, `${name} has run a text`)
      const expected = name === 'not-found' ? faults.splice(0) : []
      assert.ok(expected.every((text) => text.includes('404')), expected.join())
      assert.deepEqual(faults, [], name)
    }
    await page.goto(`${relay.url}/app`)
    await check('sign-in')
    await signIn(page, relay.url, first)
    for (const { name, path } of await seed(relay, receiver, hostile, '_')) {
      await page.goto(relay.url + path)
      await check(name)
    }
    await page.goto(`${relay.url}/tools/`) // where no script runs, so that axe cannot look at it
    await checkWidths(page, 'tools')
    await close()
  })
})
