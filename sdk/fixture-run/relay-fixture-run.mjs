#!/usr/bin/env node
// Sends the fixtures of an exported suite to a test target and checks the answers. --help says how.
import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'

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
const usage = `Usage: node relay-fixture-run.mjs <file> --target <url> --confirm-test-target [options]

Sends each fixture of an exported suite to the target, one after the other, and checks the answers. The target must be a
test system on this machine or in a private network, for example http://localhost:3000/webhooks. Suites are exported in
the dashboard, under Fixtures, or with GET /v1/fixtures/export.

Options:
  --target <url>          where the requests go
  --confirm-test-target   says that the target is a test system; nothing is sent without it
  --repeat <n>            sends each request n times, 1 to 100 (1)
  --reverse               sends the fixtures in reverse order
  --timeout <seconds>     the longest time of a whole answer, 0.1 to 120 (10)

Exit codes: 0 all passed, 1 an assertion failed, 2 refused or wrong usage: nothing was sent, 130 ended by Ctrl-C`

const longestFile = 5 << 20 // bytes
const mostFixtures = 100
const longestBody = 256 << 10 // bytes of a fixture's body
const longestEquals = 4 << 10
const longestAnswer = 1 << 20
const mostRequired = 20
const day = 86_400_000
const longestLife = 91 * day // of a fixture, in ms: 90 days, and clocks differ

/** Reads the arguments, or throws a Refusal. */
export function readArguments(args) {
  const options = { repeat: 1, timeout: 10_000, reverse: false, isConfirmed: false }
  const given = new Set()
  const left = [...args]
  while (left.length > 0) {
    let [word, value] = [left.shift()]
    if (!word.startsWith('--')) {
      if (options.file !== undefined) throw new Refusal(`one file is run at a time; ${printable(word)} is a second one`)
      options.file = word
      continue
    }
    const at = word.indexOf('=')
    if (at > 0) [word, value] = [word.slice(0, at), word.slice(at + 1)]
    if (given.has(word)) throw new Refusal(`${printable(word)} is given twice`)
    given.add(word)
    if (word === '--reverse' || word === '--confirm-test-target') {
      if (value !== undefined) throw new Refusal(`${word} takes no value`)
      options[word === '--reverse' ? 'reverse' : 'isConfirmed'] = true
      continue
    }
    if (!['--target', '--repeat', '--timeout'].includes(word)) {
      throw new Refusal(`the option ${printable(word)} is unknown\n\n${usage}`)
    }
    value ??= left.shift()
    if (value === undefined) throw new Refusal(`${word} needs a value`)
    if (word === '--target') options.target = value
    if (word === '--repeat') options.repeat = readNumber(word, value, /^\d{1,3}$/, 1, 100)
    if (word === '--timeout') options.timeout = readNumber(word, value, /^\d{1,3}(\.\d+)?$/, 0.1, 120) * 1000
  }
  if (options.file === undefined) throw new Refusal(`the exported file is missing\n\n${usage}`)
  if (options.target === undefined) throw new Refusal('--target <url> is missing: where the requests are to go')
  if (!options.isConfirmed) {
    throw new Refusal('nothing was sent: add --confirm-test-target to say that the target is a test system, because the ' +
      'requests may change its data')
  }
  return options
}

function readNumber(option, text, form, least, most) {
  const n = Number(text)
  if (form.test(text) && n >= least && n <= most) return n
  throw new Refusal(`${option} must be ${option === '--repeat' ? 'a whole number' : 'seconds'} from ${least} to ${most}`)
}

// parts returns the [name, text] of each member of an object, or the [index, text] of each element of an array. The
// texts stay as they are: JSON.parse would change long numbers. The argument is valid JSON.
function parts(text) {
  const space = /[ \t\r\n]*/y
  const skip = (i) => {
    space.lastIndex = i
    space.test(text)
    return space.lastIndex
  }
  const found = []
  const isObject = text[0] === '{'
  for (let i = skip(1); text[i] !== '}' && text[i] !== ']';) {
    let name = found.length
    if (isObject) {
      const end = valueEnd(text, i)
      name = JSON.parse(text.slice(i, end))
      i = skip(skip(end) + 1)
    }
    const end = valueEnd(text, i)
    found.push([name, text.slice(i, end)])
    i = skip(end)
    if (text[i] === ',') i = skip(i + 1)
  }
  return found
}

// valueEnd returns the index after the JSON value that begins at i.
function valueEnd(text, i) {
  for (let depth = 0; ;) {
    const c = text[i++]
    if (c === '"') i = stringEnd(text, i)
    else if (c === '{' || c === '[') depth++
    else if (c === '}' || c === ']') depth--
    else if (depth === 0) while (i < text.length && !',]} \t\r\n'.includes(text[i])) i++
    if (depth === 0) return i
  }
}

// stringEnd returns the index after the closing quote of a string whose first character is at i.
function stringEnd(text, i) {
  for (; text[i] !== '"'; i++) if (text[i] === '\\') i++
  return i + 1
}

// readMembers returns the texts of an object's members by name: exactly the ones that are known.
function readMembers(text, where, required, optional = []) {
  if (text === undefined || text[0] !== '{') throw changed(`${where} is not an object`)
  const members = new Map()
  for (const [name, value] of parts(text)) {
    if (members.has(name)) throw changed(`${where} has ${printable(name, 50)} twice`)
    if (!required.includes(name) && !optional.includes(name)) {
      throw changed(`${where} has the unknown member ${printable(name, 50)}`)
    }
    members.set(name, value)
  }
  for (const name of required) if (!members.has(name)) throw changed(`${where} has no ${name}`)
  return members
}

function changed(what) {
  return new Refusal(`the file was changed or is damaged: ${what}; export the suite again`)
}

// readValue returns a member's value if it passes, by its type and a check.
function readValue(members, name, where, type, check = () => true) {
  const value = JSON.parse(members.get(name) ?? 'null')
  if (typeof value !== type || !check(value)) throw changed(`${where}${where && '.'}${name} is not valid`)
  return value
}

function readTime(members, where, name = 'expires_at') {
  const isTime = (text) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/.test(text) && Date.parse(text)
  return Date.parse(readValue(members, name, where, 'string', isTime))
}

// readRequired returns the { pointer, type, equals } of the fields that an answer must have; equals is JSON text.
function readRequired(text, where) {
  if (text === undefined) return []
  if (text[0] !== '[') throw changed(`${where} is not a list`)
  const fields = parts(text)
  if (fields.length > mostRequired) throw changed(`${where} has more than ${mostRequired} fields`)
  return fields.map(([i, field]) => {
    const at = `${where}[${i}]`
    const members = readMembers(field, at, ['pointer'], ['type', 'equals'])
    const pointer = readValue(members, 'pointer', at, 'string', (x) => /^(\/([^~]|~[01])*)?$/.test(x) && x.length <= 1000)
    const types = ['string', 'number', 'boolean', 'object', 'array', 'null']
    const type = members.has('type') ? readValue(members, 'type', at, 'string', (x) => types.includes(x)) : undefined
    const equals = members.get('equals')
    if (equals !== undefined && Buffer.byteLength(equals) > longestEquals) throw changed(`${at}.equals is too long`)
    return { pointer, type, ...(equals !== undefined && { equals }) }
  })
}

function readFixture(text, where, exported) {
  const members = readMembers(text, where, ['id', 'name', 'type', 'method', 'body', 'expires_at', 'expect'])
  const body = Buffer.from(members.get('body'))
  if (body.length > longestBody) throw new Refusal(`${where}.body is larger than ${longestBody >> 10} KiB`)
  const expires = readTime(members, where)
  if (expires > exported + longestLife) throw changed(`${where} expires too long after its export`)
  if (members.get('type') !== 'null') readValue(members, 'type', where, 'string', (x) => x.length <= 1000)
  const expect = readMembers(members.get('expect'), `${where}.expect`, ['status'], ['required'])
  return {
    id: readValue(members, 'id', where, 'string', (x) => /^fix_\w{1,64}$/.test(x)),
    name: readValue(members, 'name', where, 'string', (x) => x !== '' && x.length <= 500),
    method: readValue(members, 'method', where, 'string', (x) => ['POST', 'PUT', 'PATCH', 'DELETE'].includes(x)),
    body, expires,
    status: readValue(expect, 'status', `${where}.expect`, 'number', (x) => Number.isInteger(x) && x >= 100 && x <= 599),
    required: readRequired(expect.get('required'), `${where}.expect.required`),
  }
}

/** Returns the fixtures of a suite, or throws a Refusal. now is in ms. */
export function readSuite(bytes, now = Date.now()) {
  let text
  let suite
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim()
    suite = JSON.parse(text)
  } catch {
    throw new Refusal('the file is not JSON; export the suite again')
  }
  if (suite?.format !== 'relay.fixture-suite') {
    throw new Refusal('the file is no fixture suite: its format is not relay.fixture-suite; export one in the ' +
      'dashboard, under Fixtures, or with GET /v1/fixtures/export')
  }
  if (suite.version !== 1) {
    throw new Refusal('the suite has another version than 1, which this runner knows; take the runner from /tools of the ' +
      'service that exported the suite')
  }
  const top = readMembers(text, 'the suite', ['format', 'version', 'suite_id', 'exported_at', 'expires_at', 'fixtures'])
  readValue(top, 'suite_id', '', 'string', (x) => /^fxs_\w{1,64}$/.test(x))
  const exported = readTime(top, '', 'exported_at')
  const expires = readTime(top, '')
  if (!Array.isArray(suite.fixtures)) throw changed('fixtures is not a list')
  const found = parts(top.get('fixtures'))
  if (found.length === 0) throw new Refusal('the suite has no fixtures')
  if (found.length > mostFixtures) {
    throw new Refusal(`the suite has ${found.length} fixtures, at most ${mostFixtures} are run; export it in parts`)
  }
  const fixtures = found.map(([i, x]) => readFixture(x, `fixtures[${i}]`, exported))
  if (new Set(fixtures.map(({ id }) => id)).size < fixtures.length) throw changed('two fixtures have the same id')
  const first = Math.min(...fixtures.map((x) => x.expires))
  if (expires !== first) throw changed('expires_at is not that of the fixture that expires first')
  for (const fixture of [...fixtures, { name: 'the suite', expires }]) {
    if (fixture.expires <= now) {
      throw new Refusal(`${printable(fixture.name)} expired ${describeTime(fixture.expires, now)}; export the suite again`)
    }
  }
  if (exported > now + day) throw changed('exported_at is in the future')
  return fixtures
}

function describeTime(ms, now) {
  const [date, time] = new Date(ms).toISOString().split('T')
  const isDay = (other) => new Date(other).toISOString().startsWith(date)
  const words = isDay(now) ? 'today' : isDay(now - day) ? 'yesterday' : `on ${date}`
  return `${words} at ${time.slice(0, 5)} UTC`
}

// Keys that are known by their first characters.
const knownKey = new RegExp('(?:^|[^A-Za-z0-9])(?:[rs]k_(?:live|test)_|whs(?:ec|k)_|rly_(?:live|test)_|gh[opsur]_|github_pat_|' +
  'glpat-|xox[a-z]-|xapp-|sk-|AKIA|ASIA|AIza|ya29\\.|npm_|pypi-|SG\\.|shp(?:at|ca|pa|ss)_|dop_v1_|hf_|dp\\.|eyJ[\\w-]+\\.)' +
  '[\\w.+/=-]{12}')
// The service has the same patterns (pkg/secrets/name.go). Words that announce a credential at the end of a name; those of the second pattern also at the end of a longer word
// (accesstoken). What follows in the third says nothing of its own (secret_id, api_key_v2).
const credentialWord = new RegExp('^(?:key|pass|pwd|otp|pin|auth|sig|signature|session|jwt|bearer|csrf|xsrf|' +
  '(?:api|private|access|signing|secret)keys?|session(?:id|key))$')
const credentialEnd = /(?:password|passwd|passphrase|secret|token|authorization|cookie|credential)s?$/
// Names however they are written: APIkey, PHPSESSID.
const joinedName = new RegExp('(?:(?:api|auth|master|access|private|signing|secret)keys?|' +
  '(?:verification|security|confirmation|auth|access|recovery|backup)codes?|sess(?:ion)?id|password)$')
// Names that end like credentials and are none.
const harmlessName = /(?:page|next|sort|public|idempotency|partition|primary|foreign|object|cache)(?:token|key)s?$/
const addedWord = /^(?:(id)|value|v)s?$/
// What has an id that is no secret (token_id).
const identifiedWord = /(?:key|token)s?$/

// isCredentialName reports whether a name of a parameter announces a credential. Each member of a[token][0] is a name.
function isCredentialName(name) {
  return name.split(/[[\]]/).some((member) => {
    const words = splitWords(member)
    const whole = words.join('')
    for (let added; words.length > 1 && (added = addedWord.exec(words.at(-1)));) {
      words.pop()
      if (added[1] && identifiedWord.test(words.at(-1))) return false
    }
    const joined = words.join('')
    if (joinedName.test(whole) || joinedName.test(joined)) return true
    if (harmlessName.test(joined)) return false
    const last = words.at(-1) ?? ''
    return credentialWord.test(last) || credentialEnd.test(last)
  })
}

// splitWords returns the words of a name in lower case, as the service splits names (pkg/secrets/name.go):
// api_key, apiKey, API-Key and "api key" are api and key.
function splitWords(name) {
  const spaced = name.replace(/(\p{Ll})(?=\p{Lu})/gu, '$1 ').replace(/(\p{Lu})(?=\p{Lu}\p{Ll})/gu, '$1 ')
  return spaced.toLowerCase().match(/\p{L}+/gu) ?? []
}

// decode undoes the escapes of a URL, each by itself: one that is malformed stays.
function decode(text) {
  return text.replace(/(?:%[\da-f]{2})+/gi, (escapes) => String(Buffer.from(escapes.replaceAll('%', ''), 'hex')))
}

// hasCredential reports whether one of the parameters a=b;c=d announces a credential. Some servers decode a text before
// they split it, others after.
function hasCredential(text) {
  return [...text.split(';'), ...decode(text).split(';')].some((parameter) => {
    const at = parameter.indexOf('=')
    return at > 0 && at < parameter.length - 1 && isCredentialName(decode(parameter.slice(0, at)))
  })
}

function refuseCredentials({ url: { pathname, search } }) {
  const parameters = search.slice(1).split('&')
  // A path has parameters too: /orders;token=x. A plus sign stands for a space in a query, or for itself in a key.
  if ([...pathname.split('/'), ...parameters].some(hasCredential) ||
    [pathname, ...parameters].some((text) => knownKey.test(decode(text)))) {
    throw new Refusal('the target has a key in its path or query; use a test target that needs none')
  }
}

async function readFile(name) {
  let file
  try {
    file = await open(name)
  } catch (error) {
    throw new Refusal(`${printable(name)} cannot be read (${error.code})`)
  }
  try {
    const buffer = Buffer.allocUnsafe(longestFile + 1)
    let length = 0
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length)
      length += bytesRead
      if (length > longestFile) throw new Refusal(`the file is larger than ${longestFile >> 20} MiB; export it in parts`)
      if (bytesRead === 0) return buffer.subarray(0, length)
    }
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Refusal(`${printable(name)} cannot be read (${error.code})`)
  } finally {
    await file.close()
  }
}

// parseExactly returns the value of valid JSON with numbers of any length. Texts and names begin with $ in it, and a
// number is a text that begins with #: JSON.parse would round numbers.
function parseExactly(text) {
  const token = /"|-?\d[\d.eE+-]*/g
  let exact = ''
  let from = 0
  for (let match; (match = token.exec(text)); from = token.lastIndex) {
    exact += text.slice(from, match.index)
    if (match[0] === '"') {
      token.lastIndex = stringEnd(text, match.index + 1)
      exact += `"$${text.slice(match.index + 1, token.lastIndex)}`
    } else exact += `"#${normalize(match[0])}"`
  }
  return JSON.parse(exact + text.slice(from))
}

// normalize returns a number of JSON as its digits and its power of ten: 1.0, 1 and 1e0 are 1e0, and -0 is 0.
function normalize(number) {
  const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]\+?(-?\d+))?$/.exec(number)
  const digits = (whole + fraction).replace(/^0+/, '')
  if (digits === '') return '0'
  let end = digits.length
  while (digits[end - 1] === '0') end--
  return `${sign}${digits.slice(0, end)}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - end)}`
}

// valueAt returns { value } at a JSON Pointer (RFC 6901) in a document of parseExactly, or undefined.
function valueAt(document, pointer) {
  let value = document
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    const isArray = Array.isArray(value)
    const isHeld = isArray ? /^(0|[1-9]\d*)$/.test(name) && Number(name) < value.length
      : value !== null && typeof value === 'object' && Object.hasOwn(value, `$${name}`)
    if (!isHeld) return undefined
    value = value[isArray ? name : `$${name}`]
  }
  return { value }
}

// typeOf returns the type of a value of parseExactly.
function typeOf(value) {
  if (typeof value === 'string') return value[0] === '#' ? 'number' : 'string'
  return value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
}

/** Says what is wrong with an answer, empty if nothing is. It names types of the answer's values, never the values. */
export function describeFault({ status, required }, answer, timeout) {
  if (answer.status >= 300 && answer.status < 400) return 'a redirect, which is never followed'
  if (answer.status !== status) return `expected status ${status}`
  if (answer.fault === 'timeout') return `the answer did not end within ${timeout / 1000} s`
  if (answer.fault === 'too long') return `the answer is larger than ${longestAnswer >> 20} MiB`
  if (answer.fault) return 'the answer was cut off'
  if (required.length === 0) return ''
  let document
  try {
    const text = String(answer.body)
    JSON.parse(text)
    document = parseExactly(text)
  } catch {
    return 'the answer is not JSON, and fields are required'
  }
  for (const field of required) {
    const pointer = printable(field.pointer || 'the document')
    const found = valueAt(document, field.pointer)
    if (!found) return `${pointer} is missing`
    const type = typeOf(found.value)
    if (field.type && type !== field.type) return `${pointer}: expected type ${field.type}, found ${type}`
    if (field.equals === undefined) continue
    const expected = parseExactly(field.equals)
    if (!isDeepStrictEqual(found.value, expected)) {
      const isOther = type === typeOf(expected) ? 'another ' : ''
      return `${pointer}: expected ${printable(field.equals, 100)}, found ${isOther}${type}`
    }
  }
  return ''
}

// runFixtures sends the requests, one after the other, and returns the exit code.
async function runFixtures(fixtures, target, { repeat, timeout }, { out, stop }) {
  const run = randomBytes(8).toString('hex')
  const count = { PASS: 0, FAIL: 0 }
  for (const fixture of fixtures) {
    for (let attempt = 1; attempt <= repeat && !stop.aborted; attempt++) {
      const headers = ['content-type', 'application/json', 'user-agent', 'relay-fixture-runner/1',
        'relay-fixture-id', fixture.id, 'relay-fixture-run', run, 'relay-fixture-attempt', String(attempt)]
      const started = performance.now()
      let answer
      let fault
      try {
        answer = await send(target, { method: fixture.method, headers, body: fixture.body, timeout, most: longestAnswer })
        fault = describeFault(fixture, answer, timeout)
      } catch (error) {
        fault = describeFailure(error, target.url)
      }
      const ms = Math.round(performance.now() - started)
      const verdict = fault ? 'FAIL' : 'PASS'
      count[verdict]++
      const name = printable(fixture.name, 100) + (repeat > 1 ? ` (${attempt} of ${repeat})` : '')
      out(`${verdict} ${name} ${answer?.status ?? '-'} ${ms} ms${fault && `: ${fault}`}`)
    }
  }
  out(`${count.PASS} passed, ${count.FAIL} failed`)
  if (stop.aborted) return 130
  return count.FAIL > 0 ? 1 : 0
}

/** Runs the tool and returns its exit code. io is { env, stop, out, err }, for tests also lookup and now. */
export async function main(args, io) {
  if (args.includes('--help') || args.includes('-h')) {
    io.out(usage)
    return 0
  }
  try {
    const options = readArguments(args)
    const fixtures = readSuite(await readFile(options.file), io.now)
    const target = await openTarget(options.target, { lookup: io.lookup })
    refuseCredentials(target)
    return await runFixtures(options.reverse ? fixtures.reverse() : fixtures, target, options, io)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    io.err(error.message)
    return error.code
  }
}

await runProgram(import.meta.url, main)
