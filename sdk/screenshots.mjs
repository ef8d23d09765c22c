// Saves pictures of the dashboard's pages in bin/screenshots: NAME-WIDTH-SCHEME.png (make screenshots).
import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { schemes } from './browser/checks.mjs'
import { openBrowser, openPage } from './browser/chromium.mjs'
import { choosePassword } from './browser/dashboard.mjs'
import { seed } from './browser/pages.mjs'
import { startReceiver } from './browser/receiver.mjs'
import { startRelay } from './browser/relay.mjs'

const directory = fileURLToPath(new URL('../bin/screenshots/', import.meta.url))
const [relay, receiver, browser] = await Promise.all([startRelay(), startReceiver(), openBrowser()])

try {
  const { page } = await openPage(browser, relay.url)
  await mkdir(directory, { recursive: true })
  const save = async ({ name, path }) => {
    await page.goto(relay.url + path)
    for (const width of [390, 1280, 1920]) {
      await page.setViewportSize({ width, height: 900 })
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme })
        await page.screenshot({ path: `${directory}${name}-${width}-${colorScheme}.png`, fullPage: true })
      }
    }
  }
  await save({ name: 'sign-in', path: '/app' })
  await choosePassword(page, relay.link)
  for (const each of await seed(relay, receiver, '')) {
    await save(each)
  }
} finally {
  await Promise.all([browser.close(), relay.stop(), receiver.stop()])
}
