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
