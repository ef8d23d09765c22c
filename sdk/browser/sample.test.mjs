// The sample shop, which takes a minute: a part of the long run.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { all } from './checks.mjs'
import { openBrowser, openPage } from './chromium.mjs'
import { choosePassword } from './dashboard.mjs'
import { startRelay } from './relay.mjs'
import { playSample } from './sample.mjs'

test('from Show me over an outage to a recovery', { skip: !all && 'long form only' }, async () => {
  const [relay, browser] = await Promise.all([startRelay(), openBrowser()])
  try {
    const { page, faults } = await openPage(browser, relay.url)
    await choosePassword(page, relay.link)
    let scenes = 0
    await playSample(page, relay.url, () => { scenes++ })
    assert.equal(scenes, 5)
    await page.getByRole('button', { name: 'Remove the sample' }).click()
    await page.getByRole('button', { name: 'Show me' }).waitFor()
    assert.deepEqual(faults, [])
  } finally {
    await Promise.all([browser.close(), relay.stop()])
  }
})
