// Runs the script of the reference page as a browser does: as a classic script with a window.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import vm from 'node:vm'

const script = readFileSync(new URL('../../api/viewer/start.js', import.meta.url), 'utf8')

function run(window) {
  vm.runInNewContext(script, { ...window, window }, { filename: 'start.js' })
}

test('the viewer draws the served document and sends nothing', () => {
  const calls = []
  run({ SwaggerUIBundle: (options) => calls.push(options) })
  assert.equal(calls.length, 1)
  const [options] = calls
  assert.equal(options.url, '/openapi.json')
  assert.equal(options.dom_id, '#reference')
  assert.equal(options.deepLinking, true)
  // An array of another realm, so compare it as text.
  assert.equal(JSON.stringify(options.supportedSubmitMethods), '[]', 'a request could be sent from the page')
  assert.equal(options.validatorUrl, null, 'the document would be sent to a validator')
})

test('without the viewer the script leaves the page as it is', () => {
  run({})
})
