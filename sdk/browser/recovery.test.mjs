// A recovery as a person leads it: a destination breaks, a canary fails, the destination is mended, the next recovery
// delivers what was missed. The counters of the page add up whenever it changes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { all, checkAccessible, checkWidths, schemes } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { call, choosePassword } from './dashboard.mjs'
import { startReceiver } from './receiver.mjs'
import { startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
// In the long form the process is killed while the job sends: more deliveries, one a second, are left then.
const events = all ? 25 : 8

let relay, receiver, browser

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found');
  [relay, receiver, browser] = await Promise.all([startRelay(), startReceiver(), openBrowser()])
})

after(async () => {
  await Promise.all([browser?.close(), relay?.stop(), receiver?.stop()])
})

// watchCounters reports an error of the page whenever its counters do not add up.
const watchCounters = () => new MutationObserver(() => {
  const shown = [...document.querySelectorAll('[data-counter]')]
  const { total, ...parts } = Object.fromEntries(shown.map((e) => [e.dataset.counter, Number(e.textContent.replaceAll(',', ''))]))
  const sum = Object.values(parts).reduce((a, b) => a + b, 0)
  if (shown.length === 6 && sum !== total) console.error(`the counters add up to ${sum}, not ${total}`)
}).observe(document, { subtree: true, childList: true, characterData: true })

async function breakDestination() {
  const { status, body } = await call(relay, 'POST', '/v1/endpoints', {
    name: 'payments',
    type_source: 'body:$.type',
    retry_policy: { strategy: 'none' },
    destinations: [{ name: 'ledger', url: `${receiver.url}/mend` }],
  })
  assert.equal(status, 201)
  for (let n = 0; n < events; n++) {
    const response = await fetch(body.ingest_url, { method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'invoice.paid', n }) })
    assert.equal(response.status, 200)
  }
  for (;;) { // a failed attempt is the end of a delivery
    const { body: list } = await call(relay, 'GET', `/v1/events?endpoint_id=${body.id}&status=failed`)
    if (list.data?.length === events) return body.id
    await delay(100)
  }
}

test('a recovery from the failed canary to the end', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.addInitScript(watchCounters)
  await choosePassword(page, relay.link)
  await breakDestination()
  const counter = (name) => page.locator(`[data-counter=${name}]`).innerText()

  await page.goto(`${relay.url}/app/recoveries`)
  await page.getByRole('link', { name: 'Prepare a recovery' }).click()
  await page.getByLabel('Endpoint', { exact: true }).selectOption({ label: 'payments' })
  await page.getByRole('button', { name: 'Show failures' }).click()
  await page.getByRole('cell', { name: 'attempts_exhausted' }).waitFor()
  await checkAccessible(page, 'the causes')
  await checkWidths(page, 'the causes')
  await page.getByRole('button', { name: 'Prepare', exact: true }).click()
  await page.getByRole('button', { name: 'Send a canary of 5' }).click()
  await page.getByText('A delivery failed for good, so nothing more was sent.').waitFor() // the page follows
  await page.locator('.tl > li.failed').first().waitFor()
  assert.equal(await counter('total'), String(events))
  assert.equal(await counter('delivered'), '0')

  receiver.mend()
  await page.getByRole('link', { name: 'Prepare the same again' }).click()
  if (all) await page.getByLabel(/^Deliveries a second/).fill('1')
  await page.getByRole('button', { name: 'Prepare', exact: true }).click()
  await page.getByRole('button', { name: 'Send a canary of 5' }).click()
  await page.getByRole('button', { name: `Continue with ${events - 5}` }).waitFor()
  await page.locator('.tl > li.delivered').nth(4).waitFor()
  assert.equal(await page.locator('.tl > li.delivered').count(), 5)
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme })
    await checkAccessible(page, `the approval, ${colorScheme}`)
  }
  await checkWidths(page, 'the approval')
  await page.setViewportSize({ width: 1280, height: 900 })
  await page.getByRole('button', { name: `Continue with ${events - 5}` }).click()
  await page.locator('#dlg-go').getByRole('button', { name: 'Cancel', exact: true }).waitFor()
  await page.getByRole('button', { name: `Send ${events - 5}`, exact: true }).click()
  if (all) {
    await page.waitForFunction(() => Number(document.querySelector('[data-counter=delivered]').textContent) > 7)
    await relay.restart()
  }
  await page.getByText(`Completed: ${events} of ${events} delivered`).waitFor()
  assert.equal(await counter('delivered'), String(events))
  assert.equal(await counter('pending'), '0')

  // Keys: from the list to the newest recovery.
  await page.goto(`${relay.url}/app/recoveries`)
  await page.keyboard.press('?')
  await page.getByText('next row').waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await page.keyboard.press('k')
  await page.keyboard.press('Enter')
  await page.getByText(`Completed: ${events} of ${events} delivered`).waitFor()
  const killed = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|503/
  assert.deepEqual(faults.filter((fault) => !all || !killed.test(fault)), [])
  await page.close()
})
