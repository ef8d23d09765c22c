// The SDK in a browser: the console, responses to fetch, uncaught errors.
import { newCore, withheld } from './core.js'
import { hmac } from './hash.js'
import { callersOf, framesOf, placeOf } from './stack.js'

const shared = Symbol.for('@eventrelay/sdk')
const methods = 'assert debug dir dirxml error group groupCollapsed info log table trace warn'.split(' ')
const sendTimeout = 10_000
const contentType = 'text/plain;charset=UTF-8'
// The console and fetch as they were when this module was loaded: what the SDK itself writes and sends.
const page = globalThis
const plainWarn = page.console.warn.bind(page.console)
const plainFetch = page.fetch?.bind(page)

async function post(url, body) {
  const response = await plainFetch(url, {
    method: 'POST', body, headers: { 'content-type': contentType }, credentials: 'omit', redirect: 'error',
    referrerPolicy: 'no-referrer', signal: AbortSignal.timeout(sendTimeout),
  })
  return { status: response.status, retryAfter: response.headers.get('retry-after'), text: await response.text() }
}

// pathOf returns the URL of a script without its query, without its origin if that is the page's.
function pathOf(file) {
  const [url] = file.split(/[?#]/, 1)
  const own = `${page.location?.origin}/`
  return url.startsWith(own) ? url.slice(own.length) : url
}

// textOf returns a text of any value, of an error with its causes.
function textOf(value, depth = 0) {
  let text = ''
  try {
    if (!value?.stack) return JSON.stringify(value, once()) || ''
    text = String(value.stack)
    if (!text.includes(value.message ?? '')) text = `${value}\n${text}` // in Firefox and Safari a stack is frames alone
    if (value.cause !== undefined && depth < maxDepth) text += `\nCaused by: ${textOf(value.cause, depth + 1)}`
  } catch { /* a getter throws: what was read before it counts */ }
  return text
}

// once returns a replacer for JSON.stringify with which each object is written once, so that a value may refer to itself.
function once() {
  const seen = new Set()
  return (key, value) => {
    if (typeof value === 'bigint') return `${value}`
    if (typeof value !== 'object' || value === null) return value
    if (seen.has(value) || seen.size === maxValues) return undefined
    seen.add(value)
    return value
  }
}

const core = page[shared] || newCore({
  transport: post,
  maxBytes: 60_000,
  options: { responseSampleRate: 0.1 },
  warn: plainWarn,
  outage: (host) => `reporting to host ${host} fails`,
  whereOf: (logger, error, entry) => ({ logger, ...placeOf(framesOf(error, entry), pathOf) }),
  hmac,
  inspect: textOf,
})
page[shared] = core
core.undo ||= []

function replaceMethod(object, key, replacement) {
  const original = object[key]
  const wrapper = object[key] = replacement(original)
  core.undo.push(() => { if (object[key] === wrapper) object[key] = original })
}

const maxDepth = 4
const maxValues = 1000

// maskValue returns a copy of a value with its strings masked by clean; the value itself if nothing is.
function maskValue(value, clean, depth, budget) {
  if (typeof value === 'string') return clean(value)
  if (!value || typeof value !== 'object' || depth > maxDepth || --budget.left < 0) return value
  if (value instanceof Error) {
    const text = value.stack ? textOf(value) : String(value) // browsers print the causes too
    const masked = clean(text)
    return masked === text ? value : masked
  }
  const isList = Array.isArray(value)
  const prototype = Object.getPrototypeOf(value)
  if (!isList && prototype && prototype !== Object.prototype) return value
  let changed = false
  const members = Object.getOwnPropertyDescriptors(value) // a getter is not called: it may do anything
  for (const member of Object.values(members)) {
    const masked = maskValue(member.value, clean, depth + 1, budget)
    if (masked === member.value) continue
    member.value = masked
    changed = true
  }
  if (!changed) return value
  return Object.defineProperties(isList ? [] : Object.create(prototype), members)
}

function patchConsole() {
  for (const method of methods) {
    if (!page.console[method]) continue
    replaceMethod(page.console, method, (original) => function wrapper(...values) {
      const isSilent = method === 'assert' && values[0]
      if (isSilent || !core.active() || !core.options.console) return original.apply(this, values)
      const clean = (text) => core.clean(text, `console.${method}`, undefined, wrapper)
      const budget = { left: maxValues }
      return original.apply(this, values.map((value) => {
        try {
          return maskValue(value, clean, 0, budget)
        } catch (error) {
          core.withhold(error)
          return withheld
        }
      }))
    })
  }
}

const textTypes = /^text\/|^application\/(.*\+)?(json|javascript|xml|x-ndjson)/i

function isWatched(url) {
  const { origin, href } = new URL(url, page.location.href)
  return origin === page.location.origin || core.options.responseUrls.some((prefix) => href.startsWith(prefix))
}

// maxReadTime bounds how long a response is read, in ms: a stream that the page cancels goes on until the SDK ends too.
const maxReadTime = 10_000

// checkFetched checks the beginning of a response.
async function checkFetched(response, method) {
  const type = response.headers.get('content-type') || ''
  if (!textTypes.test(type)) return
  const reader = response.clone().body.getReader() // there is none with 204 and the like: the caller ignores the error
  const cancel = () => { reader.cancel().catch(() => {}) }
  const timer = setTimeout(cancel, maxReadTime)
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (let left = core.options.maxResponseBytes; left > 0;) {
      const { done, value } = await reader.read()
      if (done) break
      text += decoder.decode(value.subarray(0, left), { stream: true })
      left -= value.length
    }
  } finally {
    clearTimeout(timer)
    cancel()
  }
  core.checkResponse(text, { method, path: new URL(response.url).pathname, status: response.status, contentType: type })
}

function patchFetch() {
  if (!page.fetch) return
  replaceMethod(page, 'fetch', (original) => async function (input, options) {
    const response = await original.apply(this, arguments)
    try {
      const url = response.url || (input instanceof Request ? input.url : String(input))
      if (core.active() && core.options.fetch && isWatched(url)) {
        if (Math.random() < core.options.responseSampleRate) {
          const method = String(options?.method || input?.method || 'GET').toUpperCase()
          checkFetched(response, method).catch(() => {})
        } else {
          core.sender.drop('sampled')
        }
      }
    } catch { /* the application's answer matters more */ }
    return response
  })
}

function listen(target, type, f) {
  target.addEventListener(type, f)
  core.undo.push(() => target.removeEventListener(type, f))
}

function sendBeacon({ type }) {
  if (type !== 'pagehide' && page.document.visibilityState !== 'hidden') return
  const { url, bodies } = core.sender.takeAll(1)
  for (const body of bodies) page.navigator.sendBeacon(url, new Blob([body], { type: contentType }))
}

export function init(options) {
  callersOf(init)
  core.init(options)
  if (core.undo.length) return
  patchConsole()
  patchFetch()
  if (!page.document) return
  listen(page, 'error', (event) => core.reportError(event.error ?? event.message))
  listen(page, 'unhandledrejection', (event) => core.reportError(event.reason))
  listen(page.document, 'visibilitychange', sendBeacon)
  listen(page, 'pagehide', sendBeacon)
}

export async function close(timeout) {
  const sent = await core.flush(timeout)
  core.stop()
  for (const f of core.undo.splice(0).reverse()) f()
  return sent
}

export const { mask, scan, flush, sendTest, checkResponse } = core
