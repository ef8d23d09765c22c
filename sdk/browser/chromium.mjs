// Opens pages in the system's Chromium and collects their errors.
import { chromium } from 'playwright-core'
import { patience } from './dashboard.mjs'

// Path of the browser; sdk/test.sh sets it.
export const browserPath = process.env.RELAY_TEST_BROWSER

// openBrowser starts Chromium without its sandbox, which does not work as root. All pages come from this machine.
export function openBrowser() {
  return chromium.launch({
    executablePath: browserPath,
    args: ['--no-sandbox', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
  })
}

// openPage returns a page and the list of its faults: console errors and warnings (including violations of the content
// security policy), exceptions, failed requests, and requests to any origin but the given one.
export async function openPage(browser, origin, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options })
  page.setDefaultTimeout(patience)
  const faults = []
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation',
    (event) => console.error(`the policy forbids ${event.blockedURI} (${event.effectiveDirective}) at ${event.sourceFile}`)))
  // With 503 a busy relay asks for patience. The page tries again, and a test waits for what it shows.
  const busy = 'Failed to load resource: the server responded with a status of 503 '
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !message.text().startsWith(busy)) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure()
    if (errorText !== 'net::ERR_ABORTED') { // the test left the page
      faults.push(`${request.url()}: ${errorText}`)
    }
  })
  page.on('request', (request) => {
    const { protocol, origin: target } = new URL(request.url())
    if (protocol !== 'data:' && target !== origin) {
      faults.push(`a request to ${request.url()}`)
    }
  })
  return { page, faults }
}
