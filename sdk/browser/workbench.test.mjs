// The workbench as a person uses it: from an event that cannot be transformed to the one that is delivered.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { checkAccessible, checkWidths, schemes } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { call, choosePassword } from './dashboard.mjs'
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

test('from a transformation that fails to the event that is delivered, and back to an earlier version', { skip }, async () => {
  const made = await call(relay, 'POST', '/v1/endpoints', { name: 'orders', destinations: [{ url: `${receiver.url}/orders` }] })
  assert.equal(made.status, 201)
  const path = `/app/endpoints/${made.body.id}/workbench`
  const { page, faults } = await openPage(browser, relay.url)
  await choosePassword(page, relay.link)

  await page.goto(relay.url + path)
  assert.match(await page.getByLabel('Text of the sample').inputValue(), /"sample": true/) // an example: no event has come
  const operations = page.getByLabel('Operations')
  await page.getByText('All operations as JSON').click()
  await operations.fill('[{"op": "drop", "paths": ["/secret"]}, {"op": "rename", "from": "/total", "to": "/id"}]')
  await page.getByLabel('Text of the sample').fill('{"id": 7, "total": 1.50, "secret": "s"}')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByText('An operation fails, so this body would not be sent.').waitFor()
  for (const scheme of schemes) {
    await page.emulateMedia({ colorScheme: scheme })
    await checkAccessible(page, `the workbench, ${scheme}`)
  }
  await checkWidths(page, 'the workbench')
  await page.getByRole('button', { name: 'Save as version 1', exact: true }).click()
  await page.getByText('Not saved: the sample fails at operation 2.').waitFor()
  await checkAccessible(page, 'the question before it is saved')
  await checkWidths(page, 'the question before it is saved')
  await page.getByRole('button', { name: 'Save as version 1 all the same' }).click()
  await page.getByText('Version 1 is saved. It applies to every attempt from now on.').waitFor()

  const body = { id: 7, total: 1.5, secret: 's' }
  assert.equal((await fetch(made.body.ingest_url, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } })).status, 200)
  await page.goto(`${relay.url}/app/events?tail=1`)
  const row = page.locator('#rows tbody tr').filter({ hasText: 'failed' })
  await row.waitFor()
  await page.goto(relay.url + await row.getByRole('link').first().getAttribute('href'))
  const event = page.url()
  await page.getByText('Operation 2 of version 1 of the transformation failed at /id: there is a value here already').waitFor()
  await checkAccessible(page, 'an event that could not be transformed')
  await page.getByRole('link', { name: 'Show the operation that failed' }).click()
  await page.getByText('An operation fails, so this body would not be sent.').waitFor()

  await page.getByText('All operations as JSON').click()
  await operations.fill('[{"op": "drop", "paths": ["/secret"]}, {"op": "rename", "from": "/total", "to": "/amount"}]')
  await operations.blur() // it is previewed at once
  await page.getByText('All operations succeed.').waitFor()
  await page.getByRole('button', { name: 'Save as version 2', exact: true }).click()
  await page.getByText('Version 2 is saved.').waitFor()
  await page.goto(event)
  await page.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: /^Replay to / }).click()
  for (const id = event.split('/').at(-1); ;) {
    const { body: { status } } = await call(relay, 'GET', `/v1/events/${id}`)
    if (status === 'delivered') break
  }

  await page.goto(relay.url + path)
  await page.getByRole('link', { name: 'Restore version 1' }).click()
  await page.getByText('These are the operations of version 1, not saved.').waitFor()
  assert.match(await operations.inputValue(), /"to":\s*"\/id"/)
  await checkAccessible(page, 'an earlier version')
  await checkWidths(page, 'an earlier version')
  assert.deepEqual(faults, [])
})
