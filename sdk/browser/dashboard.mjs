// Steps of a person in the dashboard, which several tests take.
import { createHmac, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'

// patience is how long a test waits for anything, in ms: only a hang takes so long.
export const patience = 120_000

export const password = 'correct horse battery staple'

// Providers whose endpoints the tests create: sign returns the headers of a request.
export const providers = {
  GitHub: {
    secret: 'a secret of twenty characters',
    sign: (body, secret) => ({ 'X-GitHub-Event': 'push', 'X-Hub-Signature-256': `sha256=${hmac(body, secret)}` }),
  },
  'Another signature (HMAC)': {
    secret: 'another secret of twenty',
    sign: (body, secret) => ({ 'X-Signature': hmac(body, secret) }),
    configure: (page) => page.getByLabel(/^Enforce/).check(),
  },
}

function hmac(body, secret) {
  return createHmac('sha256', secret).update(body).digest('hex')
}

// choosePassword opens a one-time link, uses it and sets the password.
export async function choosePassword(page, link) {
  await page.goto(link)
  await page.getByRole('button', { name: 'Use the link' }).click()
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByLabel('Repeat the password').fill(password)
  await page.getByRole('button', { name: 'Set password' }).click()
  await page.waitForURL(new URL('/app', link).href) // its heading says what needs somebody
}

export async function signIn(page, url, email) {
  await page.goto(`${url}/app`)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(`${url}/app`)
}

// createEndpoint chooses a provider and fills in its form. It returns the ingest URL that the last page shows.
export async function createEndpoint(page, url, { provider, name, destination }) {
  const { secret, configure } = providers[provider]
  await page.goto(`${url}/app/endpoints/new`)
  await page.getByRole('link', { name: provider }).click()
  await page.getByLabel(/^Name/).fill(name)
  await page.getByLabel(/^Destination URL/).fill(destination)
  await page.getByLabel(/^Secret of the provider/).fill(secret)
  await configure?.(page)
  await page.getByRole('button', { name: 'Create endpoint' }).click()
  await page.getByText('It is shown now and never again').waitFor()
  await page.locator('main a.go').click()
  await page.getByText('Waiting for the first request').waitFor()
  return page.getByText(`${url}/in/`).first().innerText()
}

// leave opens an address from a page that reloads itself, as it does without scripts: that can abort the navigation.
export async function leave(page, url) {
  for (;;) {
    try {
      return await page.goto(url)
    } catch (error) {
      if (!/ERR_ABORTED|interrupted by another navigation/.test(error.message)) throw error
    }
  }
}

// reloadUntil reloads a page until it has an element: on a busy machine a page may say that the event store did not answer.
export async function reloadUntil(page, element) {
  for (let tries = 12; ; tries--) {
    try {
      return await element.waitFor({ timeout: 10_000 })
    } catch (error) {
      if (tries === 0) throw new Error(`${page.url()}: ${(await page.locator('main').innerText()).slice(0, 500)}`, { cause: error })
    }
    await page.reload()
  }
}

// post sends an event to an ingest URL as the provider does, and returns the status.
export async function post(ingestURL, provider, body, secret = providers[provider].secret) {
  const headers = { 'Content-Type': 'application/json', ...providers[provider].sign(body, secret) }
  return (await fetch(ingestURL, { method: 'POST', headers, body })).status
}

// call calls the API and returns the status and the decoded body. It repeats a call that was not possible at the moment.
export async function call(relay, method, path, value) {
  const headers = { Authorization: `Bearer ${relay.key}`, 'Content-Type': 'application/json' }
  if (method === 'POST') headers['Idempotency-Key'] = randomUUID()
  for (const until = Date.now() + patience; ;) {
    const response = await fetch(`${relay.url}${path}`, { method, headers, body: value && JSON.stringify(value) })
    const body = await response.json()
    if (response.status !== 503 || Date.now() > until) return { status: response.status, body }
    await delay(1000 * Number(response.headers.get('Retry-After')))
  }
}

// invite adds a person and returns the one-time link.
export async function invite(page, url, email) {
  await page.goto(`${url}/app/settings/people`)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel(/^Read and write/).check()
  await page.getByRole('button', { name: 'Make the link' }).click()
  return page.locator('#new-link').innerText()
}

// told waits for the message of a redirect. It hides itself after eight seconds, sooner than a slow machine may look.
export async function told(page, message) {
  await page.getByText(message).waitFor({ state: 'attached' })
}
