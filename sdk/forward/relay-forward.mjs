#!/usr/bin/env node
// Forwards a copy of each new event of an endpoint to a local URL. --help says how. It follows the event stream of the
// service, GET /v1/endpoints/{id}/stream, or asks for new events where a proxy holds the stream back.
import { createHmac } from 'node:crypto'

// ---- begin of sdk/shared/target.mjs; change it there and run sdk/shared/generate.mjs ----
// Where a tool may send, and how it sends. generate.mjs copies this file into each tool, because a tool is one file.
import dns from 'node:dns'
import fs from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import url from 'node:url'

/** Ends the program: the message says what to do next, the code is the exit code (2: nothing was sent). */
export class Refusal extends Error {
  constructor(message, code = 2) {
    super(message)
    this.code = code
  }
}

function addressList(...subnets) {
  const list = new net.BlockList()
  for (const subnet of subnets) {
    const [address, bits] = subnet.split('/')
    list.addSubnet(address, Number(bits), net.isIPv6(address) ? 'ipv6' : 'ipv4')
  }
  return list
}

// Addresses of this machine and of private networks: RFC 1122, RFC 1918, RFC 4193.
const loopback = addressList('127.0.0.0/8', '::1/128')
const privateNetworks = addressList('10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7')
// Never a target: what the IANA registries reserve, such as unspecified, link-local and multicast addresses, and
// prefixes of IPv6 that hold an IPv4 address, which a gateway would send to any of these. pkg/egress refuses the same;
// a test there compares the two. An IPv4-mapped address (::ffff:0:0/96) is checked as the IPv4 address that it holds.
const reserved = addressList('0.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24',
  '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/3', '::/96', '::ffff:0:0:0/96', '64:ff9b::/96',
  '64:ff9b:1::/48', '100::/64', '100:0:0:1::/64', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20', '5f00::/16',
  'fe80::/10', 'fec0::/10', 'ff00::/8')
// Metadata services of clouds at addresses that are not reserved: Azure; Alibaba; Amazon, Google and Oracle over IPv6.
const metadata = addressList('168.63.129.16/32', '100.100.100.200/32', 'fd00:ec2::254/128', 'fd20:ce::254/128',
  'fd00:c1::a9fe:a9fe/128')

function isIn(list, address) {
  const [bare] = address.split('%') // without the zone of a link-local address
  return list.check(bare, net.isIPv6(bare) ? 'ipv6' : 'ipv4')
}

/** Reports whether an address is this machine's. */
export function isLoopback(address) {
  return isIn(loopback, address)
}

// addressFault says why nothing may be sent to an address; empty if it may.
function addressFault(address, remote) {
  if (isLoopback(address)) return ''
  if (isIn(reserved, address) || isIn(metadata, address)) {
    return 'is link-local, a metadata service or reserved for another use'
  }
  if (remote || isIn(privateNetworks, address)) return ''
  return 'is neither on this machine nor in a private network'
}

/** Resolves a host to [{address, family}]; localhost and names below it are this machine (RFC 6761, section 6.3). */
export async function resolveHost(host, lookup = dns.promises.lookup) {
  if (net.isIP(host)) return [{ address: host, family: net.isIP(host) }]
  if (host === 'localhost' || host.endsWith('.localhost')) {
    return [{ address: '127.0.0.1', family: 4 }, { address: '::1', family: 6 }]
  }
  try {
    return await lookup(host, { all: true })
  } catch (error) {
    throw new Refusal(`${printable(host)} cannot be resolved (${error.code}); check its spelling`)
  }
}

/** Returns the host of a URL without the brackets of an IPv6 address, and without the dot at the end. */
export function hostOf({ hostname }) {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
}

/**
 * Checks where a tool is to send, or throws a Refusal. The target is resolved once and keeps its addresses: a name that
 * changes later (DNS rebinding) leads nowhere else. remote allows public addresses over https.
 */
export async function openTarget(text, { remote = false, lookup } = {}) {
  let parsed
  try {
    parsed = new URL(text)
  } catch {
    // The text is not shown: it may hold a password.
    throw new Refusal('the target is not a URL; give one such as http://localhost:3000/webhooks')
  }
  if (!['http:', 'https:'].includes(parsed.protocol)) {
    throw new Refusal(`the target begins with ${printable(parsed.protocol)}; give one that begins with http: or https:`)
  }
  if (parsed.username || parsed.password || /^[^/]*\/\/[^/?#]*@/.test(text)) {
    throw new Refusal('the target has a user name or password; leave out what is before the @')
  }
  if (text.includes('#')) throw new Refusal('the target has a fragment; leave out the # and what follows')
  const host = hostOf(parsed)
  const addresses = await resolveHost(host, lookup)
  if (addresses.length === 0) throw new Refusal(`${printable(host)} has no address; check its spelling`)
  for (const { address } of addresses) {
    const fault = addressFault(address, remote)
    if (fault) throw new Refusal(`the target's address ${printable(address)} ${fault}; nothing is sent there`)
    if (parsed.protocol === 'http:' && addressFault(address, false)) {
      throw new Refusal('a target that is neither on this machine nor in a private network must use https')
    }
  }
  const hook = (_, options, callback) => {
    if (options.all) callback(null, addresses)
    else callback(null, addresses[0].address, addresses[0].family)
  }
  // What is shown of it: a query may hold a credential.
  const shown = `${parsed.protocol}//${parsed.host}${parsed.pathname}${parsed.search && '?…'}`
  return { url: parsed, host, hook, shown }
}

/**
 * Sends one request on a connection of its own and follows no redirect. Resolves to { status, body, fault }: fault is
 * 'timeout', 'too long' or 'cut off' if not all of the body was read. Rejects if there is no status. headers is a flat
 * list of names and values, timeout in ms bounds the whole exchange, most is the longest body in bytes.
 */
export function send(target, { method, headers, body, timeout, most }) {
  return new Promise((resolve, reject) => {
    const { url: to, host: hostname, hook: lookup } = target
    const request = (to.protocol === 'https:' ? https : http).request({
      method, hostname, port: to.port, path: to.pathname + to.search, lookup, agent: false,
      headers: ['host', to.host, ...headers, 'content-length', String(body.length)],
    })
    let status
    const chunks = []
    let size = 0
    const finish = (fault, error) => {
      clearTimeout(timer)
      request.destroy()
      if (status === undefined) reject(error)
      else resolve({ status, body: Buffer.concat(chunks), fault })
    }
    const timer = setTimeout(() => {
      finish('timeout', Object.assign(new Error('timeout'), { code: 'TIMEOUT', timeout }))
    }, timeout)
    request.on('error', (error) => finish('cut off', error))
    request.on('upgrade', () => finish('cut off', new Error('an upgrade')))
    request.on('response', (response) => {
      status = response.statusCode
      response.on('data', (chunk) => {
        size += chunk.length
        if (size > most) finish('too long')
        else chunks.push(chunk)
      })
      response.on('end', () => finish(''))
      response.on('error', () => finish('cut off'))
    })
    request.end(body)
  })
}

/** Says in words why send was rejected. */
export function describeFailure(error, { protocol, host }) {
  const where = `${protocol}//${host}`
  const { code = error.message } = error
  if (code === 'ECONNREFUSED') return `nothing listens on ${where}`
  if (code === 'TIMEOUT') return `no answer within ${error.timeout / 1000} s`
  if (code === 'ECONNRESET' || code === 'EPIPE') return `${where} closed the connection without an answer`
  if (/CERT|SIGNATURE|TLS/.test(code)) {
    return `${where} has a certificate that Node.js does not trust (${code}); name its issuer in NODE_EXTRA_CA_CERTS`
  }
  return `no answer from ${where} (${printable(String(code))})`
}

/** Returns text as one line for a terminal: without control, bidirectional and zero-width characters. */
export function printable(text, longest = 200) {
  const line = String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, '')
  return line.length > longest ? `${line.slice(0, longest)}…` : line
}

/** Runs main with the arguments if the module is the program, on Node.js 20 or newer, and ends with its exit code. */
export async function runProgram(moduleURL, main) {
  const program = process.argv[1]
  if (!program || !fs.existsSync(program) || url.pathToFileURL(fs.realpathSync(program)).href !== moduleURL) return
  if (parseInt(process.versions.node) < 20) {
    process.stderr.write(`this tool needs Node.js 20 or newer; this is ${process.version}\n`)
    process.exit(2)
  }
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(130) // the second time it does not wait
      stop.abort()
    })
  }
  const code = await main(process.argv.slice(2), {
    env: process.env, stop: stop.signal,
    out: (line) => process.stdout.write(`${line}\n`), err: (line) => process.stderr.write(`${line}\n`),
  })
  process.stdout.write('', () => process.exit(code))
}
// ---- end of sdk/shared/target.mjs ----
const usage = `Usage: RELAY_API_KEY=<key> node relay-forward.mjs <endpoint_id> <local_url>

Sends a copy of each new event of the endpoint to the local URL, with its original method, headers and body. The
destinations of the endpoint receive every event as usual. Ctrl-C ends it.

The local URL must be on this machine or in a private network, for example http://localhost:3000/webhooks.

Environment:
  RELAY_API_KEY                  an API key of the service; read scope is enough
  RELAY_BASE_URL                 the address of the service (http://127.0.0.1:8080); https unless it is this machine
  RELAY_FORWARD_SIGNING_SECRET   whsec_...: signs copies of events that have no webhook-signature
  RELAY_FORWARD_ALLOW_REMOTE=1   allows an https URL outside of private networks

Exit codes: 0 ended by Ctrl-C, 2 usage, key or Node.js older than 20, 3 gave up`

/** Times in ms, and how often the service is asked in a row before the tool gives up: about ten minutes. */
export const defaults = {
  ready: 10_000, // until the stream's first event; later a proxy holds it back
  silence: 45_000, // without a byte of the stream, which has one every 15 s
  request: 30_000, // a request to the service
  answer: 30_000, // of the local server
  poll: 2_000,
  firstPause: 1_000,
  longestPause: 30_000,
  tries: 24,
  firstTries: 5, // before the first connection, when no event can be missed
}

const longestLine = 32 << 20 // characters of one line of the stream: a body in base64 and its headers
const longestAnswer = 64 << 20 // bytes of an answer of the service
const longestLocalAnswer = 64 << 10
const remembered = 10_000 // ids of events
const overlap = 5_000 // ms that a poll goes back: events become readable out of order

/** Says that the service cannot be used now; the tool tries again, not before `after` ms. */
class Unavailable extends Error {
  constructor(message, after = 0) {
    super(message)
    this.after = after
  }
}

/** Yields { id, event, data } for each server-sent event of a body. Calls waits(true) before it waits for bytes. */
export async function * messages(body, waits = () => {}) {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let message = {}
  for (;;) {
    waits(true)
    const { done, value } = await reader.read()
    waits(false)
    if (done) return
    const searched = text.length
    text += decoder.decode(value, { stream: true })
    let start = 0
    for (let end = text.indexOf('\n', searched); end >= 0; end = text.indexOf('\n', start)) {
      const line = text.slice(start, end).replace(/\r$/, '')
      start = end + 1
      const [, field, content] = /^([^:]*):? ?([^]*)$/.exec(line)
      if (line === '') {
        if (message.data !== undefined) yield message
        message = {}
      } else if (field === 'data' && message.data !== undefined) {
        message.data += `\n${content}`
      } else if (field === 'data' || field === 'id' || field === 'event') {
        message[field] = content
      }
    }
    text = text.slice(start)
    if (text.length > longestLine) throw new Unavailable('the stream has a line that is too long')
  }
}

// Headers that belong to one connection (RFC 9110, section 7.6.1), and those that http.request sets.
const connectionHeaders = new Set(['host', 'connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade',
  'expect', 'content-length'])

/**
 * Returns headers with values for http.request, which writes each character as one byte. base64 has the bytes of values
 * that are not UTF-8, at the same index; an older service does not send it.
 */
function latin1Headers(headers, base64) {
  return headers.map(([name, value], i) => {
    const bytes = typeof base64?.[i] === 'string' ? Buffer.from(base64[i], 'base64') : Buffer.from(value, 'utf8')
    return [name, bytes.toString('latin1')]
  })
}

// Names that the local application could take for the service's own: it may read relay_event_id as relay-event-id. Those
// that end loops of relays stay.
const isForged = (name) => /^relay[^a-z0-9]/.test(name) && name !== 'relay-hops' && name !== 'relay-path'

/**
 * Returns the headers of a copy as a flat list: all in order but those of the connection and those of strangers that
 * look like the service's own, and the event's id. A character of a value is one byte.
 */
export function copyHeaders({ id, headers, body }, secret, seconds = Math.floor(Date.now() / 1000)) {
  const named = headers.filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.toLowerCase().split(',').map((word) => word.trim()))
  const left = headers.filter(([name]) => {
    const lower = name.toLowerCase()
    return !connectionHeaders.has(lower) && !lower.startsWith('proxy-') && !named.includes(lower) && !isForged(lower)
  })
  left.push(['relay-event-id', id])
  const isSigned = headers.some(([name]) => /^webhook-(id|signature)$/i.test(name))
  if (secret && !isSigned) {
    const signature = createHmac('sha256', secret).update(`${id}.${seconds}.`).update(body).digest('base64')
    left.push(['webhook-id', id], ['webhook-timestamp', String(seconds)], ['webhook-signature', `v1,${signature}`])
  }
  return left.flat()
}

/** The HTTP API of the service, as far as the tool needs it. */
class Service {
  constructor(base, key, times, stop) {
    Object.assign(this, { base, key, times, stop })
  }

  // request returns an answer with status 200, 400 or 404. Others end the tool, or are Unavailable.
  async request(path, headers, signal) {
    let response
    try {
      response = await fetch(this.base.href.replace(/\/$/, '') + path, {
        headers: { authorization: `Bearer ${this.key}`, 'accept-encoding': 'identity', ...headers },
        redirect: 'manual', signal,
      })
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw new Unavailable(`${describeFailure(error.cause ?? error, this.base)}; is the service running, and is ` +
        'RELAY_BASE_URL its address?')
    }
    const { status } = response
    if (status === 200 || status === 404 || status === 400) return response
    await response.body?.cancel()
    const host = this.base.host
    if (status === 401) {
      throw new Refusal(`${host} does not accept the key in RELAY_API_KEY: it is wrong, expired or revoked; create one ` +
        'in the dashboard under Settings')
    }
    if (status === 403) {
      throw new Refusal(`${host} does not let the key in RELAY_API_KEY read events: it has no read scope, or belongs to ` +
        'another account')
    }
    if (status >= 300 && status < 400) {
      throw new Refusal(`${host} answers with a redirect, which is not followed; set RELAY_BASE_URL to its final address`)
    }
    const after = Number(response.headers.get('retry-after')) * 1000 || 0
    const why = status === 429 ? 'has too many requests or streams of this key' : `answers with status ${status}`
    throw new Unavailable(`${host} ${why}`, Math.min(after, 60_000))
  }

  // json returns { status, date, value } of an answer; value is null unless the status is 200.
  async json(path) {
    const { signal, abort, clear } = deadline(this.stop)
    const timer = setTimeout(() => abort(new Unavailable(`no answer from ${this.base.host}`)), this.times.request)
    try {
      const response = await this.request(path, {}, signal)
      const chunks = []
      let size = 0
      for await (const chunk of response.body ?? []) {
        if ((size += chunk.length) > longestAnswer) throw new Unavailable(`${this.base.host} sends too long an answer`)
        chunks.push(chunk)
      }
      const date = Date.parse(response.headers.get('date')) || Math.floor(Date.now() / 1000) * 1000
      const { status } = response
      return { status, date, value: status === 200 ? JSON.parse(Buffer.concat(chunks)) : null }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (error instanceof Refusal || error instanceof Unavailable) throw error
      throw new Unavailable(`the answer of ${this.base.host} is damaged or not from the service`)
    } finally {
      clearTimeout(timer)
      clear()
    }
  }
}

// deadline returns a signal that is aborted by `abort` or by another signal; clear detaches it from that.
function deadline(other) {
  const controller = new AbortController()
  const follow = () => controller.abort(other.reason)
  if (other.aborted) follow()
  other.addEventListener('abort', follow)
  const abort = (reason) => controller.abort(reason)
  return { signal: controller.signal, abort, clear: () => other.removeEventListener('abort', follow) }
}

// pause waits; it ends early when the tool is stopped.
function pause(ms, stop) {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer)
      stop.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    stop.addEventListener('abort', finish)
    if (stop.aborted) finish()
  })
}

/** Follows one endpoint and sends copies, one after the other. */
class Forwarder {
  constructor(settings, io) {
    Object.assign(this, settings, io)
    this.service = new Service(this.base, this.key, this.times, this.stop)
    this.seen = new Map() // received_at in ms by event id: the last ones, oldest first
    this.count = { answered: 0, other: 0, failed: 0 }
    this.cursor = '' // of the stream
    this.isPolling = false
    this.heldBack = 0 // streams in a row that did not begin although the service answers
    this.watchedSince = 0 // ms by the clock of the service; 0: not yet
    this.newest = 0 // the latest received_at in ms
  }

  // readEndpoint returns { value, date }; it ends the tool if there is no such endpoint.
  async readEndpoint() {
    const answer = await this.service.json(`/v1/endpoints/${this.endpoint}`)
    if (answer.value?.id === this.endpoint) return answer
    if (answer.status === 200) throw new Unavailable(`${this.base.host} is not the service`)
    if (this.watchedSince) throw new Refusal(`gave up: the endpoint ${this.endpoint} was deleted`, 3)
    throw new Refusal(`there is no endpoint ${this.endpoint}: the id is wrong, the endpoint was deleted, or the key ` +
      'belongs to another account')
  }

  // run copies events until the tool is stopped. It throws the Refusal that ends it earlier.
  async run() {
    let failures = 0
    for (let isNamed = false; !this.stop.aborted;) {
      try {
        if (!isNamed) this.printBanner((await this.readEndpoint()).value.name)
        isNamed = true
        const connected = () => {
          if (failures && this.watchedSince) this.err('connected again')
          failures = 0
        }
        if (this.isPolling) await this.poll(connected)
        else await this.follow(connected)
      } catch (error) {
        if (this.stop.aborted) return
        if (!(error instanceof Unavailable)) throw error
        const { tries, firstTries } = this.times
        if (++failures >= (this.watchedSince ? tries : Math.min(tries, firstTries))) {
          const missed = this.watchedSince ? '; events since then were not copied' : ''
          throw new Refusal(`gave up after ${failures} tries: ${error.message}${missed}`, 3)
        }
        const { firstPause, longestPause } = this.times
        const grown = Math.min(firstPause * 2 ** (failures - 1), longestPause) * (0.5 + Math.random() / 2)
        const ms = Math.max(grown, error.after)
        this.err(`${error.message}; trying again in ${Math.max(1, Math.round(ms / 1000))} s`)
        await pause(ms, this.stop)
      }
    }
  }

  printBanner(name) {
    this.out(`Forwarding ${this.endpoint} (${printable(name ?? '', 100)}) -> ${this.target.shown}`)
    this.out('Destinations receive every event as usual. A copy is what was received, before any transformation.')
    this.out(this.secret
      ? 'Copies without a webhook-signature are signed with RELAY_FORWARD_SIGNING_SECRET.'
      : 'Events sent through the API come unsigned; set RELAY_FORWARD_SIGNING_SECRET=whsec_... to sign their copies.')
  }

  // startWatching says that from now on each new event is copied.
  startWatching(date) {
    if (!this.watchedSince) this.out('Waiting for new events; Ctrl-C ends.')
    this.watchedSince ||= date
  }

  // follow reads the stream until it ends, or begins to poll if there is none.
  async follow(connected) {
    const { signal, abort, clear } = deadline(this.stop)
    const heldBack = new Unavailable('the stream did not begin')
    let timer = setTimeout(() => abort(heldBack), this.times.ready)
    let isReady = false
    const waits = (waiting) => {
      if (!isReady) return // the first timer counts
      clearTimeout(timer)
      const silence = () => abort(new Unavailable(`nothing came from ${this.base.host} for a while`))
      if (waiting) timer = setTimeout(silence, this.times.silence)
    }
    try {
      const headers = { accept: 'text/event-stream', ...(this.cursor && { 'last-event-id': this.cursor }) }
      const response = await this.service.request(`/v1/endpoints/${this.endpoint}/stream`, headers, signal)
      if (response.status === 400 && this.cursor) {
        this.cursor = ''
        throw new Unavailable('the service does not know the place in the stream; events may be missing')
      }
      if (response.status !== 200 || !response.headers.get('content-type')?.startsWith('text/event-stream')) {
        await this.startPolling('the service or a proxy offers no event stream')
        return
      }
      for await (const { id, event, data } of messages(response.body, waits)) {
        if (event === 'ready') {
          isReady = true
          this.heldBack = 0
          clearTimeout(timer)
          connected()
          this.startWatching(Date.parse(response.headers.get('date')) || Date.now())
        }
        await this.handle(event, data)
        if (id) this.cursor = id
        if (this.stop.aborted) return
      }
      throw new Unavailable(`${this.base.host} closed the stream`)
    } catch (error) {
      const cause = signal.aborted ? signal.reason : error
      if (cause === heldBack) {
        // A service that comes back at this moment answers too: only the second time a proxy is the reason.
        if (this.heldBack++ > 0) await this.startPolling('a proxy holds the event stream back')
        else await this.readEndpoint()
      } else if (cause instanceof Refusal || cause instanceof Unavailable || this.stop.aborted) throw cause
      else throw new Unavailable(`the connection to ${this.base.host} was lost`)
    } finally {
      clearTimeout(timer)
      abort()
      clear()
    }
  }

  // handle does what a message of the stream asks for.
  async handle(kind, data) {
    if (kind !== 'event' && kind !== 'gap' && kind !== 'end') return
    let value
    try {
      value = JSON.parse(data)
    } catch {
      throw new Unavailable('the stream is damaged')
    }
    if (kind === 'gap') {
      this.err(`events since ${printable(value.from)} are no longer stored and were not copied`)
    } else if (kind === 'event') {
      await this.copy(value)
    } else if (value.reason === 'key_revoked') {
      throw new Refusal('the key in RELAY_API_KEY was revoked or has expired; create one in the dashboard under Settings')
    } else if (value.reason === 'endpoint_deleted') {
      throw new Refusal(`gave up: the endpoint ${this.endpoint} was deleted`, 3)
    } else {
      throw new Unavailable(`${this.base.host} is stopping`)
    }
  }

  // startPolling asks for new events from now on. It throws Unavailable if the service does not answer at all.
  async startPolling(why) {
    const { date } = await this.readEndpoint()
    this.err(`${why}; asking every ${this.times.poll / 1000} s instead`)
    this.isPolling = true
    if (this.watchedSince) return
    for (const row of await this.listSince(date)) this.remember(row.id, Date.parse(row.received_at))
    this.startWatching(date)
  }

  // poll copies new events, oldest first, and waits.
  async poll(connected) {
    const [oldest] = this.seen.size >= remembered ? this.seen.values() : [0]
    const rows = await this.listSince(Math.max(this.watchedSince, this.newest - overlap, oldest + 1))
    connected()
    for (const row of rows.reverse()) {
      const isCopied = row.status !== 'rejected' && row.reason !== 'duplicate' && !row.payload_erased_at
      if (isCopied && !this.seen.has(row.id)) await this.copy({ ...row, truncated: true })
      if (this.stop.aborted) return
    }
    await pause(this.times.poll, this.stop)
  }

  // listSince returns the rows of all events that were received since a time, newest first.
  async listSince(ms) {
    const rows = []
    const query = new URLSearchParams({ endpoint_id: this.endpoint, since: new Date(ms).toISOString(), limit: '100' })
    for (;;) {
      const { status, value } = await this.service.json(`/v1/events?${query}`)
      if (status !== 200 || !Array.isArray(value?.data)) throw new Unavailable('the events cannot be listed')
      rows.push(...value.data)
      if (!value.next_cursor) return rows
      query.set('cursor', value.next_cursor)
    }
  }

  // remember keeps an event's id, so that it is copied once whichever way it comes.
  remember(id, receivedAt) {
    this.seen.set(id, receivedAt)
    this.newest = Math.max(this.newest, receivedAt)
    if (this.seen.size > remembered) this.seen.delete(this.seen.keys().next().value)
  }

  // copy sends one event to the target, once. A row of a list and an event without its body are read first.
  async copy(event) {
    const receivedAt = Date.parse(event.received_at)
    if (!/^evt_\w{1,64}$/.test(event.id) || !receivedAt) throw new Unavailable('the answer is not from the service')
    if (this.seen.has(event.id)) return
    const { method, headers, body } = event.truncated ? await this.readEvent(event.id) : decodeEvent(event, 'base64')
    this.remember(event.id, receivedAt)
    if (!method) {
      this.err(`${event.id} was erased before it could be copied`)
      return
    }
    const started = performance.now()
    const sayWaiting = () => this.err('waiting for 1 answer; Ctrl-C again ends at once')
    this.stop.addEventListener('abort', sayWaiting)
    let result
    try {
      result = await send(this.target, {
        method, headers: copyHeaders({ id: event.id, headers, body }, this.secret), body,
        timeout: this.times.answer, most: longestLocalAnswer,
      })
    } catch (error) {
      result = { failure: describeFailure(error, this.target.url) }
    } finally {
      this.stop.removeEventListener('abort', sayWaiting)
    }
    this.printCopy(event.id, method, result, Math.round(performance.now() - started))
  }

  printCopy(id, method, { status, failure }, ms) {
    const at = new Date().toTimeString().slice(0, 8)
    const isRedirect = status >= 300 && status < 400
    const why = failure ?? (isRedirect ? 'a redirect, not followed: give the final URL' : '')
    this.count[failure ? 'failed' : status >= 200 && status < 300 ? 'answered' : 'other']++
    this.out(`${at} ${printable(method, 20)} ${status ?? 'failed'} ${ms} ms ${id}${why && ` ${why}`}`)
  }

  // readEvent returns { method, headers, body }, or an empty object if the event or its payload is gone.
  async readEvent(id) {
    const { value } = await this.service.json(`/v1/events/${id}`)
    if (!value || value.payload_erased_at) return {}
    return decodeEvent({ ...value, headers: value.headers_raw }, value.body_encoding)
  }

  printSummary() {
    const { answered, other, failed } = this.count
    const n = answered + other + failed
    this.out(`Copied ${n} ${n === 1 ? 'event' : 'events'}: ${answered} answered with 2xx, ${other} with another status, ` +
      `${failed} without an answer.`)
  }
}

// decodeEvent returns { method, headers, body } with the bytes that the service received.
function decodeEvent({ method, headers, headers_base64: base64, body }, encoding) {
  if (typeof method !== 'string' || !Array.isArray(headers) || typeof body !== 'string') {
    throw new Unavailable('the answer is not from the service')
  }
  const bytes = Buffer.from(body, encoding === 'base64' ? 'base64' : 'utf8')
  return { method, headers: latin1Headers(headers, base64), body: bytes }
}

// readSettings checks the arguments and the environment.
async function readSettings(args, { env, lookup }) {
  if (args.length !== 2) throw new Refusal(`two arguments are needed: an endpoint id and a local URL\n\n${usage}`)
  const [endpoint, local] = args
  if (!/^ep_\w{1,64}$/.test(endpoint)) throw new Refusal('the first argument is an endpoint id, such as ep_4fJ2...')
  const key = env.RELAY_API_KEY ?? ''
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Refusal('set RELAY_API_KEY to an API key; the dashboard has them in Settings')
  const target = await openTarget(local, { remote: env.RELAY_FORWARD_ALLOW_REMOTE === '1', lookup })
  return { endpoint, key, target, base: await readBase(env, lookup), secret: readSecret(env) }
}

// readBase returns the address of the service. Over http the key would travel in clear text.
async function readBase({ RELAY_BASE_URL: text }, lookup) {
  let base
  try {
    base = new URL(text || 'http://127.0.0.1:8080')
  } catch {
    throw new Refusal('RELAY_BASE_URL is not a URL; give one such as https://relay.example.com')
  }
  const isPlain = base.protocol === 'http:'
  if (!isPlain && base.protocol !== 'https:' || base.username || base.password || base.search || base.hash) {
    throw new Refusal('RELAY_BASE_URL must be https://host or http://localhost:port, without a password and without ? or #')
  }
  if (isPlain && !(await resolveHost(hostOf(base), lookup)).every(({ address }) => isLoopback(address))) {
    throw new Refusal('RELAY_BASE_URL must use https: over http the API key could be read on its way')
  }
  return base
}

// readSecret returns the bytes of a secret as Standard Webhooks has them.
function readSecret({ RELAY_FORWARD_SIGNING_SECRET: text }) {
  if (!text) return null
  const secret = Buffer.from(text.replace(/^whsec_/, ''), 'base64')
  if (!text.startsWith('whsec_') || secret.length < 24 || secret.length > 64) {
    throw new Refusal('RELAY_FORWARD_SIGNING_SECRET must be whsec_ and 24 to 64 bytes in base64')
  }
  return secret
}

/** Runs the tool and returns its exit code. io is { env, stop, out, err }, for tests also lookup and times. */
export async function main(args, io) {
  if (args.includes('--help') || args.includes('-h')) {
    io.out(usage)
    return 0
  }
  let forwarder
  try {
    const settings = await readSettings(args, io)
    forwarder = new Forwarder(settings, { ...io, times: { ...defaults, ...io.times } })
    await forwarder.run()
    forwarder.printSummary()
    return 0
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (forwarder?.watchedSince) forwarder.printSummary()
    io.err(error.message)
    return error.code
  }
}

await runProgram(import.meta.url, main)
