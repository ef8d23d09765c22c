// Leaks of a website as a person finds them: a domain is added and proven, its website is scanned, the report is read,
// and a tripwire is planted and touched.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { checkAccessible, checkWidths } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { choosePassword, leave, reloadUntil } from './dashboard.mjs'
import { startRelay } from './relay.mjs'
import { startWebsite } from './website.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'

let relay, browser, website

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found')
  website = await startWebsite();
  [relay, browser] = await Promise.all([startRelay(website.env), openBrowser()])
})

after(async () => {
  await Promise.all([browser?.close(), relay?.stop(), website?.stop()])
})

const secret = (n) => ['sk', 'live', `q8ZkT2vN4xW7yR1mB5cJ9dL${n}`].join('_')

// untilShown loads the page again until it has the text, which must come within the time of the test.
async function untilShown(page, text) {
  while ((await page.getByText(text).count()) === 0) {
    await delay(200)
    await page.reload()
  }
}

async function checkPage(page, name) {
  await checkAccessible(page, name)
  await checkWidths(page, name)
  await page.setViewportSize({ width: 1280, height: 900 })
}

test('from a new domain to the report of its scan and a touched tripwire', { skip }, async () => {
  website.pages.set('/', `<!doctype html><!-- ${secret(1)} --><a href="/cart?add=1">a</a><script src="/app.js"></script>`)
  website.pages.set('/app.js', `load("${secret(2)}")`)
  website.pages.set('/.env', 'STRIPE_MODE=live\n')
  const { page, faults } = await openPage(browser, relay.url)
  await choosePassword(page, relay.link)

  await page.goto(`${relay.url}/app/domains`)
  await page.getByLabel('Host name').fill(website.host)
  await page.getByRole('button', { name: 'Add domain' }).click()
  await page.getByText('Not proven yet.').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Scan now' }).count(), 0)
  await page.getByRole('button', { name: 'Verify by DNS' }).click()
  await page.getByText('There is no TXT record at').waitFor()
  await page.getByRole('button', { name: 'Verify by file' }).click()
  await page.getByText('did not answer with the status 200').waitFor()
  const [record, value] = await page.locator('code.pick').allInnerTexts()
  website.texts.set(record, ['v=spf1 -all', value])
  await page.getByRole('button', { name: 'Verify by DNS' }).click()
  await page.getByText(/Verified since .* by the DNS record/).waitFor()
  await checkPage(page, 'a domain')

  website.pause = 1000
  await page.getByRole('button', { name: 'Scan now' }).click()
  await page.getByText(/Running: [1-9][0-9]* pages and [1-9]/).waitFor() // the page follows
  website.pause = 0
  await page.getByText('3 new findings, and 0 that were known').waitFor()
  await page.getByText('links with a query may change something: /cart').waitFor()
  await page.getByText('pages that need a sign-in').waitFor()
  await checkPage(page, 'the report of a scan')
  await page.getByRole('link', { name: 'Show them' }).click()
  await page.waitForURL('**/app/findings?*')
  const critical = page.locator('table.t tbody tr').filter({ hasText: /critical/i })
  await reloadUntil(page, critical.nth(2))
  assert.equal(await critical.count(), 3)
  assert.ok(!(await page.content()).includes(secret(1)))

  await leave(page, `${relay.url}/app/domains`)
  await page.getByRole('link', { name: website.host }).click()
  await page.getByLabel('Ingest URL').check()
  await page.getByLabel('Label').fill('build script')
  await page.getByRole('button', { name: 'Make tripwire' }).click()
  const planted = await page.locator('code.url.pick').innerText()
  await checkPage(page, 'a new tripwire')
  await page.getByRole('link', { name: 'I have planted it' }).click()
  await page.getByText('Armed: not used.').waitFor()
  assert.ok(!(await page.content()).includes(planted.split('/').pop()))
  const touched = await fetch(planted, { method: 'POST', body: '{}', headers: { 'user-agent': 'thief/1' } })
  assert.deepEqual([touched.status, await touched.json()], [200, { received: true }])
  await untilShown(page, 'Tripped: last touched')
  await checkPage(page, 'a tripwire that was touched')
  await page.getByRole('link', { name: 'Show the uses' }).click()
  await untilShown(page, 'with thief/1')
  await checkPage(page, 'the finding of a tripwire')

  await leave(page, `${relay.url}/app/domains`)
  await page.getByRole('link', { name: website.host }).click()
  await page.getByRole('link', { name: 'Its leak scans' }).click()
  await page.getByRole('cell', { name: 'completed' }).waitFor()
  assert.ok(website.paths.every((path) => !path.startsWith('/cart')), website.paths.join(' '))
  assert.deepEqual(faults, [])
  await page.close()
})
