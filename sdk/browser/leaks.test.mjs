// Log drains and detection rules as a person sets them up, with senders that do what each platform documents.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { checkAccessible, checkWidths } from './checks.mjs'
import { browserPath, openBrowser, openPage } from './chromium.mjs'
import { choosePassword, leave, patience, told } from './dashboard.mjs'
import { startRelay } from './relay.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'

let relay, browser, page, faults

before(async () => {
  if (skip) return
  assert.ok(browserPath, 'Chromium is required here and was not found');
  [relay, browser] = await Promise.all([startRelay(), openBrowser()]);
  ({ page, faults } = await openPage(browser, relay.url))
  await choosePassword(page, relay.link)
})

after(async () => {
  await browser?.close()
  await relay?.stop()
})

// leak returns a line with a secret, another one for each n.
const leak = (n) => `charged with ${['sk', 'live', `q8ZkT2vN4xW7yR1mB5cJ9dL${n}`].join('_')}`

// createDrain creates a drain in its page and opens the steps of a platform. It returns the texts to paste.
async function createDrain(name, platform) {
  await leave(page, `${relay.url}/app/drains`)
  await page.getByLabel('Name').fill(name)
  await page.getByRole('button', { name: 'Create drain' }).click()
  await page.getByText('Waiting for the first line').waitFor()
  const steps = page.locator('details').filter({ has: page.locator('summary', { hasText: platform }) })
  await steps.locator('summary').click()
  return { steps, texts: await steps.locator('code.pick').allInnerTexts() }
}

// arrives waits until the page says what has arrived.
async function arrives(platform, lines) {
  await page.getByText(new RegExp(`Lines arrive: .*, from ${platform}`)).waitFor()
  await page.getByText(new RegExp(`In 24 hours: ${lines}\\slines?,.*secrets seen 1\\stime`)).waitFor()
}

test('a drain of Vercel', { skip }, async () => {
  const { texts: [url] } = await createDrain('shop frontend', 'Vercel')
  await page.getByLabel('Verification code of Vercel').fill('code-of-vercel')
  await page.getByLabel('Signature secret of Vercel').fill('secret-of-vercel')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('One is set: requests without a valid signature get 403.').waitFor({ state: 'attached' })
  const body = JSON.stringify([{ id: '1', projectName: 'shop', message: leak(1) }, { id: '2', message: 'served' }])
  const send = (signature) => fetch(url, { method: 'POST', body,
    headers: { 'Content-Type': 'application/json', 'x-vercel-signature': signature } })
  assert.equal((await send('0'.repeat(40))).status, 403)
  const answer = await send(createHmac('sha1', 'secret-of-vercel').update(body).digest('hex'))
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('x-vercel-verify'), 'code-of-vercel')
  await page.getByText(/Lines arrive: .*, from Vercel/).waitFor()
  await page.getByText(/secrets seen 1\stime, 1\srefused request/).waitFor()
})

test('a drain of Heroku', { skip }, async () => {
  const { steps } = await createDrain('billing on heroku', 'Heroku')
  const [, url] = /heroku drains:add '(.+)' -a YOUR_APP/.exec((await steps.locator('pre').innerText()).replaceAll('\n', ' '))
  const frame = (text) => `${Buffer.byteLength(text)} ${text}`
  const body = frame(`<40>1 2026-11-23T10:00:00+00:00 host app web.1 - ${leak(2)}\n`) +
    frame('<45>1 2026-11-23T10:00:01+00:00 host heroku router - at=info status=200\n')
  const send = () => fetch(url, { method: 'POST', body, headers: { 'Content-Type': 'application/logplex-1',
    'Logplex-Msg-Count': '2', 'Logplex-Frame-Id': '09C557EAFCFB6CF2740EE62F62971098', 'Logplex-Drain-Token': 'd.1',
    'User-Agent': 'Logplex/v72' } })
  const answer = await send()
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('content-length'), '0')
  await arrives('Heroku', 2)
})

test('a drain of Amazon Data Firehose', { skip }, async () => {
  const { texts: [url, key] } = await createDrain('lambda by firehose', 'Amazon Data Firehose')
  const record = (text) => ({ data: Buffer.from(text).toString('base64') })
  const logs = gzipSync(JSON.stringify({ messageType: 'DATA_MESSAGE', logGroup: '/aws/lambda/thumbnails',
    logEvents: [{ id: '1', timestamp: Date.now(), message: leak(3) }] }))
  const body = { requestId: 'ed4acda5-034f-9f42-bba1-f29aea6d7d8f', timestamp: 1578090901599,
    records: [record(logs), record('{"level":"info"}')] }
  const answer = await fetch(url, { method: 'POST', body: gzipSync(JSON.stringify(body)), headers: {
    'Content-Type': 'application/json', 'Content-Encoding': 'gzip', 'X-Amz-Firehose-Request-Id': body.requestId,
    'X-Amz-Firehose-Access-Key': key, 'X-Amz-Firehose-Protocol-Version': '1.0' } })
  assert.equal(answer.status, 200)
  assert.equal((await answer.json()).requestId, body.requestId)
  await arrives('Amazon Data Firehose', 2)
})

test('a drain of Cloudflare Logpush', { skip }, async () => {
  const { texts: [destination] } = await createDrain('zone by logpush', 'Cloudflare Logpush')
  const url = new URL(destination)
  const headers = { Authorization: url.searchParams.get('header_Authorization'), 'Content-Encoding': 'gzip' }
  url.search = ''
  const send = (...rows) => fetch(url, { method: 'POST', headers,
    body: gzipSync(rows.map((row) => `${JSON.stringify(row)}\n`).join('')) })
  assert.equal((await send({ content: 'tests' })).status, 200)
  const row = { ClientRequestHost: 'shop.example.com', EdgeStartTimestamp: '2026-11-23T10:00:00Z', RayID: '8fa1c2d3e4f5a6b7' }
  const answer = await send({ ...row, ClientRequestURI: '/' }, { ...row, ClientRequestURI: `/?note=${leak(4).split(' ')[2]}` })
  assert.equal(answer.status, 200)
  await arrives('Cloudflare Logpush', 3)
})

test("an own rule, from its form to a drain's finding that keeps its name", { skip }, async () => {
  const own = `inv_live_${'a1B2c3d4'.repeat(4)}`
  await leave(page, `${relay.url}/app/settings/detection`)
  const form = page.getByRole('region', { name: 'New rule' }).or(page.locator('form[aria-labelledby=h-n]')).first()
  await form.getByLabel('Name').fill('Key of inventory')
  await form.getByLabel('Id', { exact: true }).fill('inventory')
  await form.getByLabel('The keys begin with').fill('sess_')
  await form.getByLabel('At least').fill('8')
  await form.getByLabel('Characters of the key').selectOption('word')
  await form.getByRole('button', { name: 'Add rule' }).click()
  await page.getByText(/match in ordinary text, such as sess_/i).first().waitFor()
  await checkAccessible(page, 'a rule that was refused')
  await form.getByLabel('The keys begin with').fill('inv_live_')
  await form.getByLabel('At least').fill('32')
  await form.getByRole('button', { name: 'Add rule' }).click()
  await told(page, 'Saved. It applies to what arrives from now on.')
  await page.getByLabel('Text', { exact: true }).fill(`first\nfailed with ${own}`)
  await page.getByRole('button', { name: 'Try', exact: true }).click()
  await page.getByText('Found in your text: 1').waitFor()
  assert.ok(!(await page.content()).includes(own), 'the page has the secret')
  await checkAccessible(page, 'a text that was tried')
  await checkWidths(page, 'a text that was tried')

  await createDrain('stock by shipper', 'Vercel')
  const url = (await page.locator('code.url.pick').innerText()).trim()
  assert.equal((await fetch(url, { method: 'POST', body: `failed with ${own}\n` })).status, 202)
  await page.getByText(/secrets seen 1\stime/).waitFor()
  await leave(page, `${relay.url}/app/settings/detection`)
  await page.getByRole('button', { name: 'Remove Key of inventory' }).click()
  await page.getByRole('button', { name: 'Remove rule' }).click()
  await told(page, 'Removed. Its findings stay.')
  for (const until = Date.now() + patience; ;) { // until the store has the finding
    await leave(page, `${relay.url}/app/findings?status=any`)
    if (await page.getByRole('link', { name: 'Key of inventory' }).count()) break
    assert.ok(Date.now() < until, 'the finding is not listed under the name of its rule')
  }
  assert.deepEqual(faults.filter((fault) => !fault.includes('status of 400')), []) // of the rule that was refused
})
