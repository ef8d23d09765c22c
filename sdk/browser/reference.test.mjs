// The documentation in a real browser, as bin/relay serves it. Its policy allows its own script only, so tests look at the
// pages from outside: by locators, which the policy does not concern.
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

// The policy refuses the scripts of the driver too.
const withoutDriver = (faults) => faults.filter((fault) => !/^Blocked script execution|Content Security Policy/.test(fault))

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
  await page.goto(`${relay.url}/docs#sendEvents`) // its address in 0.2
  await page.waitForURL(`${relay.url}/docs/api/sending#sendEvents`)
  const operation = page.locator('#sendEvents')
  assert.ok(await onScreen(page, operation.locator('h2')), 'the operation is not in the window')
  assert.match(await operation.innerText(), /POST.*\/v1\/endpoints\/\{endpoint_id\}\/events\/batch/s)
  for (const text of ['endpoint_id', 'Idempotency-Key', 'required', 'rate_limited']) {
    assert.ok((await operation.innerText()).includes(text), `the operation does not say ${text}`)
  }
  assert.ok((await page.locator('body').textContent()).includes('1 to 1000 values'), 'no operation says how many')
  await mkdir(artefacts, { recursive: true })
  await page.screenshot({ path: `${artefacts}reference.png` })
  await operation.locator('.kinds a', { hasText: 'rate_limited' }).click()
  await page.waitForURL(`${relay.url}/docs/errors#rate_limited`)
  await page.goto(`${relay.url}/docs/api`)
  assert.equal(await page.locator('.ops > li > code').count(), await operations(), 'operations on the page and in the document')
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

test('the tabs choose the language of all code samples', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs/api/endpoints`)
  const shown = async () => (await page.locator('#createEndpoint figure:visible figcaption').allInnerTexts())
    .map((caption) => caption.replace(/\s*Copy$/, ''))
  assert.deepEqual(await shown(), ['curl', 'Answer'])
  await page.getByLabel('curl', { exact: true }).focus()
  for (const title of ['JavaScript', 'Python', 'Go', 'curl']) {
    await page.keyboard.press('ArrowRight')
    assert.deepEqual(await shown(), [title, 'Answer'])
    assert.ok((await page.locator('#createEndpoint pre:visible').first().innerText()).includes(`${relay.url}/v1/endpoints`))
  }
  assert.deepEqual(withoutDriver(faults), [])
  await page.close()
})

test('code is copied, and the search leads to a page', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs/start/tour`)
  await page.locator('.copy').first().click()
  assert.equal(await page.locator('.copy').first().innerText(), 'Copied')
  await page.getByRole('searchbox').fill('rotate signing secret')
  await page.keyboard.press('Enter')
  await page.locator('.found a').first().click()
  await page.waitForURL(`${relay.url}/docs/api/destinations#rotateSecret`)
  assert.deepEqual(withoutDriver(faults), [])
  await page.close()
})

test('on a phone the contents open and lead to a page', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url, { viewport: { width: 390, height: 844 } })
  await page.goto(`${relay.url}/docs/api`)
  const entry = page.locator('#nav a[href="/docs/api/events"]')
  assert.equal(await entry.isVisible(), false)
  await page.getByRole('button', { name: 'Contents' }).click()
  await entry.click()
  await page.waitForURL(`${relay.url}/docs/api/events`)
  assert.deepEqual(withoutDriver(faults), [])
  await page.close()
})

// axe-core waits by timers, which a page without scripts does not have: it looks at the page without its policy.
test('the reference is accessible, and fits every window', { skip }, async () => {
  for (const [path, colorScheme, width] of [['/docs/api/events', 'dark', 390], ['/docs/start/tour', 'light', 390],
    ['/docs', 'light', 1280], ['/docs/errors', 'light', 1280], ['/docs/errors', 'dark', 390]]) {
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

test('no foreign script runs on the pages', { skip }, async () => {
  for (const path of ['/docs', '/docs/errors']) {
    const response = await fetch(relay.url + path)
    assert.match(response.headers.get('content-security-policy'), /^sandbox allow-scripts allow-forms; default-src 'none'; style-src 'sha256-[^']+';/)
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
