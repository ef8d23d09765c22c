// Runs the first script of the dashboard as a browser does: as a classic script with a window and a document.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import vm from 'node:vm'

const script = readFileSync(new URL('../../dashboard/static/app.js', import.meta.url), 'utf8')

// load runs the script and returns what it has registered.
function load({ times = [], forms = [], values = [], elapsed = 0, navigator = {}, stored = {}, exact = [] } = {}) {
  const page = { listeners: {}, policies: {}, intervals: [] }
  const document = {
    documentElement: { dataset: { now: '2026-08-21T22:24:36.000Z' } },
    addEventListener: (name, listener) => { page.listeners[name] = listener },
    querySelector: () => null, // nobody is signed in
    querySelectorAll: (selector) => (selector.startsWith('time[datetime]') ? exact : selector.startsWith('time') ? times : selector.startsWith('figure') ? values : forms),
    createElement: () => ({
      addEventListener(name, listener) { this[name] = listener }, setAttribute(name, text) { this[name] = text },
    }),
  }
  const window = {
    trustedTypes: { createPolicy: (name, policy) => { page.policies[name] = policy } },
    addEventListener: (name, listener) => { page.listeners[name] = listener },
  }
  const globals = { window, document, navigator, performance: { now: () => elapsed }, Date, Math,
    localStorage: { getItem: (name) => stored[name] ?? null }, Intl, setInterval: (f) => page.intervals.push(f) }
  vm.runInNewContext(script, globals, { filename: 'app.js' })
  return page
}

test('one policy for trusted types, which makes HTML only', () => {
  const { policies } = load()
  assert.deepEqual(Object.keys(policies), ['default'])
  assert.deepEqual(Object.keys(policies.default), ['createHTML'])
  assert.equal(policies.default.createHTML('<p>'), '<p>')
})

test('a form is sent once, until its page comes back', () => {
  const form = { method: 'post', dataset: {} }
  const { listeners } = load({ forms: [form] })
  let prevented = 0
  const submit = () => listeners.submit({ target: form, preventDefault: () => { prevented += 1 } })
  submit()
  assert.equal(prevented, 0)
  submit()
  assert.equal(prevented, 1)
  listeners.pageshow()
  submit()
  assert.equal(prevented, 1)
  const fields = [{ name: 'q', value: 'a' }, { name: 'since', value: '', disabled: false }, { name: '', value: '' }]
  const search = { method: 'get', dataset: {}, elements: fields }
  listeners.submit({ target: search })
  assert.deepEqual(search.dataset, {})
  assert.deepEqual(fields.map((field) => Boolean(field.disabled)), [false, true, false]) // not in the address
  listeners.pageshow()
  assert.equal(fields[1].disabled, false)
})

test('times are those of the own zone for whoever has chosen that', () => {
  const at = () => ({ dateTime: '2026-08-21T22:24:36.500Z', textContent: '22:24:36', title: '' })
  const utc = at()
  load({ exact: [utc] })
  assert.equal(utc.textContent, '22:24:36')
  const local = at()
  load({ exact: [local], stored: { 'relay-local-times': 'yes' } })
  assert.equal(local.title, '2026-08-21 22:24:36.500 UTC')
  const format = new Intl.DateTimeFormat('en-GB', {
    day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit',
  })
  assert.equal(local.textContent, format.format(new Date(local.dateTime)))
})

test('relative times go on by the clock of the server', () => {
  const at = (dateTime, relative = '') => ({ dateTime, textContent: '', dataset: { relative } })
  const times = [at('2026-08-21T22:24:36.500Z'), at('2026-08-21T22:24:06.000Z'), at('2026-08-21T22:26:36.000Z'),
    at('2026-08-21T20:24:36.000Z'), at('2026-08-18T22:24:36.000Z'), at('2026-09-04T22:24:36.000Z'),
    at('2026-08-21T22:24:36.500Z', 'due'), at('2026-08-21T22:26:36.000Z', 'due')]
  const { intervals } = load({ times, elapsed: 1000 })
  intervals[0]()
  assert.deepEqual(times.map((x) => x.textContent),
    ['now', '31\u00a0s ago', 'in 2\u00a0min', '2\u00a0h ago', '3\u00a0days ago', 'in 14\u00a0days', // to come: the nearest
      'due now', 'in 2\u00a0min'])
})

test('a value to take away gets a button where the browser can copy', async () => {
  const value = {
    innerText: 'https://relay.example.com/in/x', nextElementSibling: null, closest: () => null,
    after(button) { this.nextElementSibling = button },
    querySelectorAll: () => [],
  }
  load({ values: [value] })
  assert.equal(value.nextElementSibling, null)
  const copied = []
  load({ values: [value], navigator: { clipboard: { writeText: async (text) => copied.push(text) } } })
  const button = value.nextElementSibling
  await button.click()
  assert.deepEqual(copied, ['https://relay.example.com/in/x'])
  assert.equal(button.textContent, 'Copied')
  assert.equal(button['aria-label'], 'Copy https://relay.example.com/in/x')
})
