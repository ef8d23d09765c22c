// Opens pages in the system's Chromium and collects what went wrong in them.
import { chromium } from 'playwright-core'

// The browser's path; sdk/test.sh finds it.
export const browserPath = process.env.RELAY_TEST_BROWSER

// openBrowser: the tests run as root in places, where Chromium has no sandbox of its own. Its pages come from this
// machine alone.
export function openBrowser() {
  return chromium.launch({
    executablePath: browserPath,
    args: ['--no-sandbox', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
  })
}

// openPage gives a page and the list of its faults: errors on its console (Chromium writes there what a policy
// refused), exceptions, failed requests, and requests to another origin than the given one.
export async function openPage(browser, origin, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options })
  const faults = []
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()))
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('requestfailed', (request) => faults.push(`${request.url()}: ${request.failure().errorText}`))
  page.on('request', (request) => {
    const { protocol, origin: target } = new URL(request.url())
    if (protocol !== 'data:' && target !== origin) {
      faults.push(`a request to ${request.url()}`)
    }
  })
  return { page, faults }
}
