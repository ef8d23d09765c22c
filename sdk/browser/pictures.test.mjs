// The pictures of the documents show the dashboard as it is. make screenshots takes them again.
import assert from 'node:assert/strict'
import { readFile, stat } from 'node:fs/promises'
import { test } from 'node:test'
import { schemes } from './checks.mjs'
import { browserPath, openBrowser } from './chromium.mjs'
import { directory, elementsFile, openPictures, namedElements, showPicture } from './pictures.mjs'

const required = process.env.RELAY_TEST_ENGINES === 'required'
const skip = !browserPath && !required && 'no Chromium was found'
const maxSize = 200 * 1024
const maxAnimation = 400 * 1024

test('each picture of the documents shows the title and the elements of its page', { skip }, async () => {
  const taken = JSON.parse(await readFile(elementsFile, 'utf8'))
  const browser = await openBrowser()
  const { page, pictures, url, stop } = await openPictures(browser)
  try {
    assert.deepEqual(Object.keys(taken).sort(), pictures.map(({ name }) => name).sort())
    for (const picture of pictures) {
      await showPicture(page, url, picture)
      assert.deepEqual(await namedElements(page), taken[picture.name],
        `the page of docs/pictures/${picture.name}-light.png has changed: run make screenshots PART=documents`)
      for (const scheme of schemes) {
        const { size } = await stat(`${directory}${picture.name}-${scheme}.png`)
        assert.ok(size <= maxSize, `docs/pictures/${picture.name}-${scheme}.png has ${size} bytes, at most ${maxSize}`)
      }
    }
    for (const scheme of schemes) {
      const { size } = await stat(`${directory}sample-${scheme}.svg`)
      assert.ok(size <= maxAnimation, `docs/pictures/sample-${scheme}.svg has ${size} bytes, at most ${maxAnimation}`)
    }
  } finally {
    await Promise.all([browser.close(), stop()])
  }
})
