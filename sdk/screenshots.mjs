// make screenshots: the pictures of the documents in docs/pictures, with the list of what they show, and unless the
// argument is documents, pictures of all pages of the dashboard in bin/screenshots: NAME-WIDTH-SCHEME.png.
import { mkdir, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { schemes } from './browser/checks.mjs'
import { openBrowser, openPage } from './browser/chromium.mjs'
import { choosePassword } from './browser/dashboard.mjs'
import { seed } from './browser/pages.mjs'
import { directory, elementsFile, openPictures, namedElements, showPicture } from './browser/pictures.mjs'
import { startReceiver } from './browser/receiver.mjs'
import { startRelay } from './browser/relay.mjs'
import { takeSample } from './browser/sample.mjs'

const trafficMinutes = 12

async function takePictures(browser) {
  console.log(`the pictures of the documents need ${trafficMinutes} minutes of traffic`)
  const { page, pictures, url, stop } = await openPictures(browser, trafficMinutes)
  try {
    const elements = {}
    for (const picture of pictures) {
      await showPicture(page, url, picture)
      elements[picture.name] = await namedElements(page)
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme })
        await page.screenshot({ path: `${directory}${picture.name}-${colorScheme}.png` })
      }
    }
    await writeFile(elementsFile, `${JSON.stringify(elements, null, 1)}\n`)
  } finally {
    await stop()
  }
}

async function takeAllPages(browser) {
  const pages = fileURLToPath(new URL('../bin/screenshots/', import.meta.url))
  const [relay, receiver] = await Promise.all([startRelay(), startReceiver()])
  try {
    const { page } = await openPage(browser, relay.url)
    await mkdir(pages, { recursive: true })
    const save = async ({ name, path }) => {
      await page.goto(relay.url + path)
      for (const width of [390, 1280, 1920]) {
        await page.setViewportSize({ width, height: 900 })
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme })
          await page.screenshot({ path: `${pages}${name}-${width}-${colorScheme}.png`, fullPage: true })
        }
      }
    }
    await save({ name: 'sign-in', path: '/app' })
    await choosePassword(page, relay.link)
    for (const each of await seed(relay, receiver, '')) {
      await save(each)
    }
  } finally {
    await Promise.all([relay.stop(), receiver.stop()])
  }
}

const browser = await openBrowser()
try {
  await takeSample(browser)
  await takePictures(browser)
  if (process.argv[2] !== 'documents') await takeAllPages(browser)
} finally {
  await browser.close()
}
