// What Node.js and browsers have in common: options, masking of lines, and what a report says.
import { canonical, maskOf } from './mask.js'
import { checksum } from './shapes.js'
import { newScanner } from './engine.js'
import { parseDSN, randomId } from './dsn.js'
import { rules as builtIn } from './rules.js'
import { find, maskText, toBytes } from './lines.js'
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

const limits = [
  ['responseSampleRate', 0, 1], ['maxResponseBytes', 0, 16 << 20], ['flushInterval', 100, 3_600_000], ['queueSize', 1, 10_000],
]

const name = /^[A-Za-z0-9._@/+-]{1,64}$/

// printable cuts a text and replaces what is not printable.
function printable(text, most) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?').trim().slice(0, most).replace(/[\ud800-\udbff]$/, '').trim()
}

// newCore returns the part of the SDK of which a process or page has one. platform has transport, hmac, warn, whereOf,
// inspect, which makes a text of any value, maxBytes and, as options, the defaults that differ.
export function newCore(platform) {
  const standard = { ...defaults, ...platform.options }
  let options = standard
  let scanner = null
  let usedRules
  let salt = null
  let header // what each batch begins with, after its id
  let started = false
  let busy = false // in the SDK's own code: what it writes is not masked again
  const warned = new Set()

  function warn(message, error, again) {
    if (error) guard(() => options.onError?.(error))
    if (!again && warned.has(message)) return
    warned.add(message)
    quietly(() => platform.warn(`eventrelay: ${message}`))
  }

  const guard = (f) => { try { f() } catch { /* of the application */ } }

  function quietly(f) {
    const before = busy
    busy = true
    guard(f)
    busy = before
  }

  const sender = newSender({ ...platform, warn, header: () => header })

  // scannerOf returns the scanner with the rules of the options. It takes some milliseconds once.
  function scannerOf() {
    if (!scanner || usedRules !== options.rules) {
      usedRules = options.rules
      try {
        const given = validateRules(options.rules)
        scanner = newScanner(given)
        for (const id of given.disable) builtIn.some((r) => r.id === id) || warn(`the rule ${id} is unknown`)
      } catch (error) {
        warn(`the option rules is ignored: ${error.message}`, error)
        scanner = newScanner()
      }
    }
    return scanner
  }

  function init(given = {}) {
    options = { ...standard }
    for (const [key, value] of Object.entries(given || {})) {
      if (!(key in options)) warn(`the option ${key} is unknown`)
      else if (value !== undefined) options[key] = value
    }
    for (const [key, least, most] of limits) {
      if (options[key] >= least && options[key] <= most) continue
      warn(`the option ${key} must be from ${least} to ${most}`)
      options[key] = standard[key]
    }
    header = { sdk: { name: 'relay.javascript', version } }
    for (const key of ['environment', 'release']) {
      if (options[key] === undefined) continue
      const value = String(options[key])
      if (name.test(value) && mask(value) === value) header[key] = value
      else warn(`the option ${key} must match ${name.source}`)
    }
    const target = parseDSN(options.dsn)
    if (!target) {
      warn(`${options.dsn === undefined ? 'no DSN is set' : 'the DSN is not valid'}: secrets are masked, nothing is reported`)
    }
    salt = target && target.salt
    sender.start(target && options.enabled ? { ...options, ...target } : null)
    started = true
    scannerOf()
    if (options.debug && target) warn(`reporting to host ${target.host}`)
  }

  // safe returns a text for a report: masked, also after what is not printable is replaced, and cut.
  function safe(value, most) {
    return printable(mask(printable(mask(String(value).slice(0, 1 << 16)), 4096)), most)
  }

  // reportOf returns what is known about a secret, without its text.
  function reportOf(type, rule, secret, where) {
    const clean = {}
    for (const [key, value] of Object.entries(where)) {
      if (typeof value === 'number') clean[key] = value
      else if (value) clean[key] = safe(value, /file|path/.test(key) ? 256 : 100)
    }
    return {
      type,
      rule: rule.id,
      masked: maskOf(rule, secret),
      ...(rule.fingerprint && salt && { fp1: base64url(platform.hmac(salt, toBytes(canonical(rule, secret)))) }),
      where: clean,
    }
  }

  const mask = (text) => maskText(scannerOf(), String(text)).text

  const active = () => started && options.enabled && !busy

  // reportAll reports matches at a place. A line is not withheld if that fails.
  function reportAll(type, found, where) {
    if (!found.length) return
    let place = {}
    guard(() => { place = where() })
    guard(() => { for (const m of found) sender.add(reportOf(type, m.rule, m.secret, place)) })
  }

  // clean returns a text with masks, and reports what was found. If masking fails, the text is withheld. mask is given the
  // scanner and the text, and returns {text, found}. entry is the function that the application called.
  function clean(text, logger, mask = maskText, entry) {
    if (!active()) return text
    busy = true
    try {
      const { text: masked, found } = mask(scannerOf(), text)
      reportAll('log', found, () => platform.whereOf(logger, null, entry))
      return masked
    } catch (error) {
      withhold(error)
      return options.failOpen ? text : withheld + (text.endsWith('\n') ? '\n' : '')
    } finally {
      busy = false
    }
  }

  // withhold counts a line that could not be masked.
  function withhold(error) {
    sender.drop('masking_failed')
    sender.wake()
    warn(withheld, error)
  }

  // checkResponse reports secrets of servers in a response, and returns them. search is find, or for bytes another.
  function checkResponse(body, { method, path, status, contentType } = {}, search = find) {
    if (!active() || typeof body !== 'string') return []
    busy = true
    try {
      const leaks = search(scannerOf(), body).filter((m) => m.rule.exposure !== 'public')
      reportAll('response', leaks, () => ({
        method: /^[A-Z]{1,20}$/.test(method) ? method : '', path: path && safe(path, 4096).split(/[?#]/, 1)[0],
        status: status >= 100 && status <= 599 ? status : '', content_type: contentType,
      }))
      return leaks.map((m) => ({ rule: m.rule.id, masked: maskOf(m.rule, m.secret) }))
    } catch (error) {
      warn('a response is no JSON', error)
      return []
    } finally {
      busy = false
    }
  }

  return {
    init, clean, checkResponse, quietly, warn, withhold,
    get options() { return options },
    get sender() { return sender },
    active,
    // reportError reports secrets in an uncaught error.
    reportError(error) {
      if (!active()) return
      quietly(() => reportAll('error', find(scannerOf(), platform.inspect(error)), () => platform.whereOf('uncaught', error)))
    },
    mask,
    scan: (text) => find(scannerOf(), String(text)).map(({ rule, start, end, secret }) =>
      ({ rule: rule.id, start, end, masked: maskOf(rule, secret) })),
    // sendTest reports a key that opens nothing, and resolves to true if the relay accepts it. Its finding is marked as a
    // test.
    async sendTest(timeout) {
      const random = randomId(32)
      const rule = scannerOf().rules.find((r) => r.id === 'relay-test-key')
      const text = 'rly_test_' + random + checksum(random)
      return !!rule && sender.test(reportOf('log', rule, text, { logger: 'sendTest' }), timeout)
    },
    flush: (timeout) => sender.flush(timeout),
    stop() {
      started = false
      sender.start(null)
    },
  }
}

function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace('=', '')
}
