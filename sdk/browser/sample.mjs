// The sample shop, from Show me to the recovery, as a person sees it.
import { writeFile } from 'node:fs/promises'
import { schemes } from './checks.mjs'
import { openPage } from './chromium.mjs'
import { choosePassword } from './dashboard.mjs'
import { directory } from './pictures.mjs'
import { startRelay } from './relay.mjs'

const size = { width: 1120, height: 700 }
const secondsEach = 3

// playSample presses Show me and recovers what fails, and calls seen at each scene.
export async function playSample(page, url, seen) {
  await page.goto(`${url}/app`)
  await page.getByRole('button', { name: 'Show me' }).click()
  await page.getByText('orders/paid').first().waitFor()
  await seen()
  await page.getByText('retrying').first().waitFor()
  await page.getByText(/in 1\d\ss/).waitFor() // until the warehouse works again
  await seen()
  await page.getByRole('link', { name: 'Recover', exact: true }).waitFor({ timeout: 60_000 })
  await seen()
  await page.getByRole('link', { name: 'Recover', exact: true }).click()
  await page.getByRole('button', { name: 'Prepare' }).click()
  await page.getByRole('button', { name: /^Send a canary/ }).click()
  await page.getByRole('button', { name: /^Continue with/ }).waitFor()
  await seen()
  await page.getByRole('button', { name: /^Continue with/ }).click()
  await page.getByRole('button', { name: /^Send \d+/ }).click()
  await page.getByRole('button', { name: /^Continue with/ }).waitFor({ state: 'detached' })
  await page.goto(`${url}/app/sample`)
  await page.getByText('All has arrived').waitFor()
  await seen()
}

// takeSample writes docs/pictures/sample-SCHEME.svg: the scenes one after the other, without a script.
export async function takeSample(browser) {
  const relay = await startRelay()
  try {
    const { page } = await openPage(browser, relay.url, { viewport: size, deviceScaleFactor: 1 })
    await choosePassword(page, relay.link)
    const devtools = await page.context().newCDPSession(page)
    const scenes = Object.fromEntries(schemes.map((scheme) => [scheme, []]))
    await playSample(page, relay.url, async () => {
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme })
        const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: 60 })
        scenes[colorScheme].push(data)
      }
    })
    for (const scheme of schemes) {
      await writeFile(`${directory}sample-${scheme}.svg`, animation(scenes[scheme]))
    }
  } finally {
    await relay.stop()
  }
}

// animation returns an SVG that shows each scene in turn.
function animation(scenes) {
  const share = 100 / scenes.length
  const images = scenes.map((data, i) => `<image width="100%" height="100%" style="animation-delay:${i * secondsEach}s"` +
    ` href="data:image/webp;base64,${data}"/>`)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}">
<style>image{opacity:0;animation:scene ${scenes.length * secondsEach}s infinite}
@keyframes scene{0%,${share - 0.01}%{opacity:1}${share}%,100%{opacity:0}}
@media (prefers-reduced-motion:reduce){image{animation:none}image:nth-of-type(3){opacity:1}}</style>
${images.join('\n')}
</svg>
`
}
