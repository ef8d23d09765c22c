// What must hold on every page of the dashboard, whatever it shows.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'

const axeSource = await readFile(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')

export const schemes = ['light', 'dark']
// all says that everything is tested, not a part of it.
export const all = Boolean(process.env.RELAY_TORTURE)
const widths = all ? [320, 390, 768, 1280, 1920] : [320, 1280]

// schemesOf returns the schemes in which the page with that number is tested: both in the long run.
export const schemesOf = (number) => (all ? schemes : [schemes[number % 2]])

// checkAccessible fails if axe-core finds a serious or critical violation. axe runs in a world of its own: the policy of
// the page does not apply to it, and it changes nothing that the page sees.
export async function checkAccessible(page, name) {
  const session = await page.context().newCDPSession(page)
  const { frameTree } = await session.send('Page.getFrameTree')
  const { executionContextId: contextId } = await session.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id })
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', { contextId, expression, awaitPromise: true,
      returnByValue: true })
    assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails))
    return result.value
  }
  const violations = await evaluate(`${axeSource}
    axe.run(document, { resultTypes: ['violations'], preload: false, elementRef: false }).then(({ violations }) => violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => id + ' ' + target.join(' ') + ': ' + failureSummary)))`)
  await session.detach()
  assert.deepEqual(violations, [], `axe-core on ${name}`)
}

// checkWidths fails if the page is wider than the window, or if one of the boxes hides a part of what it shows.
export async function checkWidths(page, name, boxes = '.tabs') {
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 })
    const wide = await page.evaluate((boxes) => {
      const { scrollWidth, clientWidth } = document.documentElement
      const outside = [...document.body.querySelectorAll('*')]
        .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
        .map((element) => element.outerHTML.slice(0, 120))
      const scrolled = [...document.querySelectorAll(boxes)]
        .filter((element) => element.scrollWidth > element.clientWidth)
        .map((element) => element.outerHTML.slice(0, 120))
      const fits = scrollWidth <= clientWidth && scrolled.length === 0
      return fits ? null : { scrollWidth, outside: outside.slice(0, 5), scrolled }
    }, boxes)
    assert.equal(wide, null, `${name} does not fit ${width} px: ${JSON.stringify(wide)}`)
  }
}
