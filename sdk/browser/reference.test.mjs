// The API's reference in a real browser, as bin/relay serves it. Its pages run no script, so tests look at them from
// outside: by locators, which the policy of the page does not concern.
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { all, checkAccessible, checkWidths } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
const artefacts = fileURLToPath(new URL('../../bin/javascript/', import.meta.url))

// The sandbox refuses the timers of the driver too; a Go test sees that the page has no script of its own.
const withoutDriver = (faults) => faults.filter((fault) => !fault.startsWith('Blocked script execution'))

let relay, browser

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found')
  relay = await startRelay()
  browser = await openBrowser()
})

after(async () => {
  await browser?.close()
  await relay?.stop()
})

test('a link to an operation leads to it, with its fields and examples', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs#sendEvents`)
  const operation = page.locator('#sendEvents')
  assert.ok(await onScreen(page, operation.locator('h3')), 'the operation is not in the window')
  assert.match(await operation.innerText(), /POST.*\/v1\/endpoints\/\{endpoint_id\}\/events\/batch/s)
  for (const text of ['endpoint_id', 'Idempotency-Key', 'required', '1 to 1000 values', 'rate_limited']) {
    assert.ok((await operation.innerText()).includes(text), `the operation does not say ${text}`)
  }
  assert.equal(await page.locator('.op .call code').count(), await operations(), 'operations on the page and in the document')
  await mkdir(artefacts, { recursive: true })
  await page.screenshot({ path: `${artefacts}reference.png` })
  await operation.locator('.kinds a', { hasText: 'rate_limited' }).click()
  await page.waitForURL(`${relay.url}/docs/errors#rate_limited`)
  await page.locator('#rate_limited summary').click()
  await page.locator('#rate_limited a[href="/docs#sendEvents"]').click()
  await page.waitForURL(`${relay.url}/docs#sendEvents`)
  assert.deepEqual(withoutDriver(faults), [])
  await page.close()
})

async function onScreen(page, locator) {
  const { y } = await locator.boundingBox()
  return y >= 0 && y < page.viewportSize().height
}

async function operations() {
  const methods = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options']
  const { paths } = await (await fetch(`${relay.url}/openapi.json`)).json()
  return Object.values(paths).flatMap(Object.keys).filter((key) => methods.includes(key)).length
}

// The only control of the page, so that nothing looks like a form and does nothing.
test('the tabs choose the language of all code samples', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs`)
  const shown = () => page.locator('#createEndpoint figure:visible figcaption').allInnerTexts()
  assert.deepEqual(await shown(), ['curl', 'Answer'])
  await page.getByLabel('curl', { exact: true }).focus()
  for (const title of ['JavaScript', 'Python', 'Go', 'curl']) {
    await page.keyboard.press('ArrowRight')
    assert.deepEqual(await shown(), [title, 'Answer'])
    assert.ok((await page.locator('#createEndpoint pre:visible').first().innerText()).includes(`${relay.url}/v1/endpoints`))
  }
  assert.equal(await page.locator('input:not([name="lang"]), select, textarea, form').count(), 0)
  assert.deepEqual(withoutDriver(faults), [])
  await page.close()
})

test('on a phone the contents open and lead to an operation', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url, { viewport: { width: 390, height: 844 } })
  await page.goto(`${relay.url}/docs`)
  const entry = page.locator('#nav a[href="#listEvents"]')
  assert.equal(await entry.isVisible(), false)
  await page.getByRole('button', { name: 'Contents' }).click()
  await entry.click()
  await page.waitForURL(`${relay.url}/docs#listEvents`)
  assert.ok(await onScreen(page, page.locator('#listEvents h3')), 'the operation is not in the window')
  assert.deepEqual(withoutDriver(faults), [])
  await page.close()
})

// axe-core waits by timers, which a page without scripts does not have: it looks at the page without its policy.
test('the reference is accessible, and fits every window', { skip }, async () => {
  for (const [path, colorScheme, width] of [['/docs', 'dark', 390], ['/docs/errors', 'light', 1280], ['/docs/errors', 'dark', 390]]) {
    const { page } = await openPage(browser, relay.url, { colorScheme, viewport: { width, height: 900 } })
    await page.route(`**${path}`, async (route) => {
      const response = await route.fetch()
      const { 'content-security-policy': _, ...headers } = response.headers()
      await route.fulfill({ response, headers })
    })
    await page.goto(relay.url + path)
    await checkWidths(page, path, '.langs')
    if (!all) { // all operations come from one template
      await page.evaluate(() => [...document.querySelectorAll('.op')].slice(12).forEach((operation) => operation.remove()))
    }
    await checkAccessible(page, `${path}, ${colorScheme}`)
    await page.close()
  }
})

test('no script runs on the reference', { skip }, async () => {
  for (const path of ['/docs', '/docs/errors']) {
    const response = await fetch(relay.url + path)
    assert.match(response.headers.get('content-security-policy'), /^sandbox; default-src 'none'; style-src 'sha256-[^']+';/)
    const { page } = await openPage(browser, relay.url)
    await page.route(`**${path}`, async (route) => { // as a flaw of the page would
      const fetched = await route.fetch()
      const flaw = '<body><img src="/broken.png" onerror="document.title=1"><script>document.title = 1</script>'
      await route.fulfill({ response: fetched, body: (await fetched.text()).replace('<body>', flaw) })
    })
    await page.goto(relay.url + path)
    assert.match(await page.title(), /EventRelay$/)
    await page.close()
  }
})
