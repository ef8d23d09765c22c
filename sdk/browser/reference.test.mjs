// The API's reference in a real browser, as bin/relay serves it.
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
const artefacts = fileURLToPath(new URL('../../bin/javascript/', import.meta.url))

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

// A deep link opens an operation with the names of its parameters. The viewer resolves $ref in the parameters of an
// operation only, not in those of a path.
test('the reference draws the operations, opens the one that is linked and sends nothing', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs#/Sending/sendEvents`)
  await page.locator('#operations-Endpoints-listEndpoints').waitFor()
  await page.locator('.opblock-post.is-open#operations-Sending-sendEvents').waitFor()
  await page.locator('#operations-Sending-sendEvents [data-param-name="endpoint_id"]').waitFor()
  const drawn = await page.locator('.opblock').count()
  assert.equal(drawn, await operations(), 'operations on the page and in the document')
  for (const control of ['.authorization__btn:visible', '.scheme-container:visible', '.try-out:visible']) {
    assert.equal(await page.locator(control).count(), 0, `the page has ${control}`)
  }
  await mkdir(artefacts, { recursive: true })
  await page.screenshot({ path: `${artefacts}reference.png` })
  assert.deepEqual(faults, [])
  await page.close()
})

async function operations() {
  const methods = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options']
  const document = await (await fetch(`${relay.url}/openapi.json`)).json()
  const paths = Object.values({ ...document.paths, ...document.webhooks })
  return paths.flatMap(Object.keys).filter((key) => methods.includes(key)).length
}

// A vulnerability in the viewer exposes nothing: the page has an opaque origin, no cookies, and loads nothing from other
// hosts; from this host it reads public files only.
test('the reference is confined by its policy', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs`)
  await page.locator('.opblock').first().waitFor()
  assert.deepEqual(faults, [])
  const tried = await page.evaluate(async (key) => {
    const refused = []
    document.addEventListener('securitypolicyviolation', (e) => refused.push(e.effectiveDirective))
    const outcome = (attempt) => attempt().then(() => 'worked', (error) => error.name)
    const script = document.createElement('script')
    script.textContent = 'window.scripted = true'
    document.body.append(script)
    const image = new Image()
    image.src = 'http://127.0.0.1:9/image.png'
    const frame = document.createElement('iframe')
    frame.src = '/docs/errors'
    document.body.append(frame)
    const tried = {
      origin: self.origin,
      cookie: await outcome(async () => document.cookie),
      storage: await outcome(async () => localStorage.length),
      api: await outcome(() => fetch('/v1/me', { headers: { Authorization: `Bearer ${key}` } })),
      elsewhere: await outcome(() => fetch('http://127.0.0.1:9/')),
      evaluated: await outcome(async () => Function('return 1')()),
      scripted: 'scripted' in window,
    }
    // Violations are reported by events.
    for (const until = Date.now() + 60_000; new Set(refused).size < 5 && Date.now() < until; ) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    return { ...tried, refused: [...new Set(refused)].sort() }
  }, relay.key)
  assert.deepEqual(tried, {
    origin: 'null',
    cookie: 'SecurityError',
    storage: 'SecurityError',
    api: 'TypeError',
    elsewhere: 'TypeError',
    evaluated: 'EvalError',
    scripted: false,
    refused: ['connect-src', 'frame-src', 'img-src', 'script-src', 'script-src-elem'],
  })
  await page.close()
})

test('without script the reference names the document', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url, { javaScriptEnabled: false })
  await page.goto(`${relay.url}/docs`)
  assert.match(await page.locator('body').innerText(), /needs JavaScript.*openapi\.yaml/)
  assert.deepEqual(faults, [])
  await page.close()
})

// A build without npm has the page, but not the viewer.
test('without the viewer the reference says how to build it', { skip }, async () => {
  const { page } = await openPage(browser, relay.url)
  await page.route('**/swagger-ui*', (route) => route.fulfill({ status: 404 }))
  await page.goto(`${relay.url}/docs`)
  assert.match(await page.locator('#reference').innerText(), /built without the viewer: run make build, which downloads it/)
  await page.close()
})

test('the page of error types is drawn without a fault', { skip }, async () => {
  const { page, faults } = await openPage(browser, relay.url)
  await page.goto(`${relay.url}/docs/errors`)
  assert.notEqual(await page.locator('body').innerText(), '')
  assert.deepEqual(faults, [])
  await page.close()
})
