// What Node.js and browsers have in common: options, masking of lines, and what a report says.
import { canonical, maskOf } from './mask.js'
import { checksum } from './shapes.js'
import { newScanner } from './engine.js'
import { hmac } from './hash.js'
import { parseDSN, randomId } from './dsn.js'
import { find, maskBinary, maskText, toBytes } from './lines.js'
import { newSender } from './sender.js'
import { validateRules } from './custom.js'

/* global RELAY_SDK_VERSION */
export const version = typeof RELAY_SDK_VERSION === 'string' ? RELAY_SDK_VERSION : '0.0.0'
export const withheld = '[log line withheld: masking failed]'

const defaults = {
  dsn: undefined, environment: undefined, release: undefined, enabled: true, console: true, stdout: true, http: true,
  fetch: true, responseSampleRate: 1, maxResponseBytes: 256 << 10, responseUrls: [], flushInterval: 5000, queueSize: 200,
  rules: {}, failOpen: false, beforeSend: undefined, onError: undefined, debug: false,
}

const name = /^[A-Za-z0-9._@/+-]{1,64}$/

// printable cuts a text and replaces what is not printable.
function printable(text, most) {
  const clean = String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?').trim()
  return clean.length > most ? clean.slice(0, most).replace(/[\ud800-\udbff]$/, '').trim() : clean
}

// newCore returns the part of the SDK of which a process or page has one. platform has transport, warn, whereOf(),
// maxBytes and, as options, the defaults that differ.
export function newCore(platform) {
  let options = { ...defaults, ...platform.options }
  let scanner = null
  let usedRules
  let salt = null
  let started = false
  let busy = false // in the SDK's own code: what it writes is not masked again
  const warned = new Set()

  function warn(message, error) {
    if (error) guard(() => options.onError?.(error))
    if (warned.has(message)) return
    warned.add(message)
    quietly(() => platform.warn(`eventrelay: ${message}`))
  }

  const guard = (f) => { try { f() } catch { /* of the application */ } }

  function quietly(f) {
    const before = busy
    busy = true
    try { guard(f) } finally { busy = before }
  }

  const sender = newSender({
    transport: platform.transport,
    maxBytes: platform.maxBytes,
    warn,
    header: () => ({
      sdk: { name: 'relay.javascript', version },
      ...(name.test(options.environment) && { environment: options.environment }),
      ...(name.test(options.release) && { release: options.release }),
    }),
  })

  // scannerOf returns the scanner with the rules of the options. It takes some milliseconds once.
  function scannerOf() {
    if (!scanner || usedRules !== options.rules) {
      usedRules = options.rules
      try {
        scanner = newScanner(validateRules(options.rules))
      } catch (error) {
        warn(`the option rules is ignored: ${error.message}`, error)
        scanner = newScanner()
      }
    }
    return scanner
  }

  function init(given = {}) {
    options = { ...defaults, ...platform.options }
    for (const [key, value] of Object.entries(given || {})) {
      if (!(key in options)) warn(`the option ${key} is unknown`)
      else if (value !== undefined) options[key] = value
    }
    const positive = (key, least, most) => {
      if (!(options[key] >= least && options[key] <= most)) {
        warn(`the option ${key} must be a number from ${least} to ${most}`)
        options[key] = (platform.options || {})[key] ?? defaults[key]
      }
    }
    positive('responseSampleRate', 0, 1)
    positive('maxResponseBytes', 0, 16 << 20)
    positive('flushInterval', 100, 3_600_000)
    positive('queueSize', 1, 10_000)
    for (const key of ['environment', 'release']) {
      if (options[key] !== undefined && !name.test(options[key])) warn(`the option ${key} must match ${name.source}`)
    }
    const target = parseDSN(options.dsn)
    if (!target) {
      warn(options.dsn === undefined ? 'no DSN is set: secrets are masked, nothing is reported'
        : 'the DSN is not valid: secrets are masked, nothing is reported')
    }
    salt = target && target.salt
    sender.start(target && options.enabled ? { ...options, url: target.url } : null)
    started = true
    scannerOf()
    if (options.debug) quietly(() => platform.warn(`eventrelay: masking on, ${target ? `reporting to host ${target.host}` : 'not reporting'}`))
  }

  // report sends what is known about a secret, without its text.
  function report(type, rule, secret, where) {
    const clean = {}
    for (const [key, value] of Object.entries(where)) {
      if (typeof value === 'number') clean[key] = value
      else if (value) clean[key] = maskText(scannerOf(), printable(value, 4096)).text
    }
    for (const [key, most] of [['file', 256], ['function', 100], ['path', 256], ['content_type', 100]]) {
      if (clean[key]) clean[key] = printable(clean[key], most)
    }
    sender.add({
      type,
      rule: rule.id,
      masked: maskOf(rule, secret),
      ...(rule.fingerprint && salt && { fp1: base64url(hmac(salt, toBytes(canonical(rule, secret)))) }),
      where: clean,
    })
  }

  const active = () => started && options.enabled && !busy

  // clean returns a string or bytes with masks, and reports what was found. If that fails, the line is withheld. tail is
  // the end of what was written before, {text}, or null.
  function clean(chunk, logger, tail = null) {
    if (!active()) return chunk
    busy = true
    try {
      const isText = typeof chunk === 'string'
      const text = isText ? chunk : platform.binary(chunk)
      const { text: masked, found } = withTail(text, isText ? maskText : maskBinary, tail)
      if (!found.length) return chunk
      const where = platform.whereOf(logger)
      for (const m of found) report('log', m.rule, m.secret, where)
      return isText ? masked : platform.bytes(masked)
    } catch (error) {
      withhold(error)
      return options.failOpen ? chunk : typeof chunk === 'string' && !chunk.endsWith('\n') ? withheld : withheld + '\n'
    } finally {
      busy = false
    }
  }

  // withhold counts a line that could not be masked.
  function withhold(error) {
    sender.drop('masking_failed')
    sender.wake()
    warn('masking a log line has failed: the line is withheld', error)
  }

  // withTail masks a text, of a secret that began in the text before it what is left. Its first part is written.
  function withTail(text, mask, tail) {
    const before = tail ? tail.text : ''
    if (tail) tail.text = text.endsWith('\n') ? '' : (before + text).slice(-maxTail)
    if (before === '') return mask(scannerOf(), text)
    const crossing = find(scannerOf(), before + text).find((m) => m.start < before.length && m.end > before.length)
    if (!crossing) return mask(scannerOf(), text)
    const left = mask(scannerOf(), text.slice(crossing.end - before.length))
    return { text: '***' + left.text, found: [crossing, ...left.found] }
  }

  // checkResponse reports secrets of servers in a response, and returns them.
  function checkResponse(body, { method, path, status, contentType } = {}) {
    if (!active() || (typeof body !== 'string' && !platform.isBytes(body))) return []
    busy = true
    try {
      const found = typeof body === 'string' ? find(scannerOf(), body) : maskBinary(scannerOf(), platform.binary(body)).found
      const where = {
        method: /^[A-Z]{1,20}$/.test(method) ? method : undefined, path: path && String(path).split(/[?#]/, 1)[0],
        status: status >= 100 && status <= 599 ? status : undefined, content_type: contentType,
      }
      const leaks = found.filter((m) => m.rule.exposure !== 'public')
      for (const m of leaks) report('response', m.rule, m.secret, where)
      return leaks.map((m) => ({ rule: m.rule.id, masked: maskOf(m.rule, m.secret) }))
    } catch (error) {
      warn('checking a response has failed', error)
      return []
    } finally {
      busy = false
    }
  }

  return {
    init, clean, checkResponse, quietly, warn, withhold,
    get options() { return options },
    get sender() { return sender },
    get busy() { return busy },
    active,
    // reportError reports secrets in an uncaught error.
    reportError(error) {
      if (!active()) return
      quietly(() => {
        const text = error instanceof Error ? `${error.stack}\n${inspect(error.cause)}` : inspect(error)
        for (const m of find(scannerOf(), text)) report('error', m.rule, m.secret, platform.whereOf('uncaught', error))
      })
    },
    mask: (text) => maskText(scannerOf(), String(text)).text,
    scan: (text) => find(scannerOf(), String(text)).map(({ rule, start, end, secret }) =>
      ({ rule: rule.id, start, end, masked: maskOf(rule, secret) })),
    // sendTest reports a key that opens nothing. Its finding is marked as a test.
    sendTest(timeout) {
      const random = randomId(32)
      const rule = scannerOf().rules.find((r) => r.id === 'relay-test-key')
      if (!rule || !started) return Promise.resolve(false)
      report('log', rule, 'rly_test_' + random + checksum(random), { logger: 'sendTest' })
      return sender.flush(timeout)
    },
    flush: (timeout) => sender.flush(timeout),
    stop() {
      started = false
      sender.start(null)
    },
  }
}

// maxTail is how much of the text before a write is remembered, in characters, if that did not end a line.
const maxTail = 4096

function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '')
}

// inspect returns a text of any value; nothing of it throws.
function inspect(value) {
  try {
    return value instanceof Error ? String(value.stack) : typeof value === 'object' ? JSON.stringify(value) : String(value)
  } catch {
    return ''
  }
}
