// The six matchers: match.go, jwt.go, pem.go, jwk.go, uri.go and assign.go of package secrets. Each returns the span of a
// credential at a prefix, or null.
import { known as knownTexts, stop as stopWords } from './rules.gen.js'
import {
  at, b, charsets, dot, endsColour, endsEscape, entropy, equal, hasContent, isBoundary, isWord, levelBefore, limit,
  none, partEnd, readText, rounding, run, runLength, span, within,
} from './text.js'
import { assign, jwk, pem, uri } from './places.js'
import { digits } from './dsn.js'

export const maxJWTHeader = 1 << 10

export function match(p, headEnd) {
  const r = p.rule
  const start = headEnd - p.head.length
  const end = start + p.text.length
  if (end > limit || !equal(start, p.text, r.fold) || (r.kind !== 'assign' && !leftBoundary(r, start))) return none
  switch (r.kind) {
    case 'jwt': return jwt(r, start)
    case 'pem': return pem(r, start, end)
    case 'jwk': return jwk(r, start)
    case 'uri': return uri(start, end)
    case 'assign': return assign(r, start, end)
  }
  return token(r, start, end)
}

function leftBoundary(r, start) {
  if (r.left === 'any' || r.lead || start === 0) return true
  if (r.left === 'charset') return !r.set[at(start - 1)] || endsEscape(start) || endsColour(start)
  return isBoundary(start)
}

function token(r, start, after) {
  let from = after
  if (r.lead && (start = leadStart(r.lead, start)) < 0) return none
  while (r.spaces && at(from) === 32) from++
  const level = levelBefore(start)
  let end = partEnd(r, from, level, r.right === 'any' && !r.then)
  for (const [i, p] of (r.then || []).entries()) {
    if (end < 0) return none
    end = readText(end, p.separator)
    if (end >= 0) end = partEnd(p, end, level, r.right === 'any' && i === r.then.length - 1)
  }
  if (end < 0 || (r.right === 'word' && isWord[at(end)]) || !hasContent(r, from, end)) return none
  return span(start, from, end, end)
}

function leadStart(lead, prefix) {
  for (let n = 1; n <= lead.max && n <= prefix && lead.set[at(prefix - n)]; n++) {
    const start = prefix - n
    if (n >= lead.min && (start === 0 || !lead.set[at(start - 1)] || endsEscape(start) || endsColour(start))) return start
  }
  return -1
}

const maxEntropy = 64
const known = new Set(knownTexts)

export function accepts(r, m) {
  if (r.check && !hasChecksum(b.slice(m.start, m.end), r.check)) return false
  if (r.kind === 'pem' || r.kind === 'jwt') return true
  const secret = b.slice(m.from, m.to)
  if (r.entropy && entropy(secret.slice(0, maxEntropy)) < r.entropy - rounding) return false
  return !known.has(secret) && !hasStopWord(secret)
}

function hasStopWord(secret) {
  const plain = secret.replace(/[A-Z]/g, (c) => c.toLowerCase())
  return stopWords.some((word) => {
    if (!word.includes('_')) return plain.includes(word)
    for (let i = 0; i + word.length <= plain.length; i++) {
      if (within(secret, () => equal(i, word, true))) return true
    }
    return false
  })
}

// checksum returns the CRC32 (IEEE) of a text as 6 base62 characters.
export function checksum(text) {
  let sum = ~0
  for (let i = 0; i < text.length; i++) {
    sum ^= text.charCodeAt(i)
    for (let k = 0; k < 8; k++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0)
  }
  sum = ~sum >>> 0
  let out = ''
  for (let i = 0; i < 6; i++) {
    out = digits[sum % 62] + out
    sum = Math.floor(sum / 62)
  }
  return out
}

function hasChecksum(secret, check) {
  const prefix = check === 'relay' ? 'rly_live_' : 'rly_test_'
  return secret.startsWith(prefix) && /^[A-Za-z0-9]{38}$/.test(secret.slice(9)) &&
    checksum(secret.slice(9, 41)) === secret.slice(41)
}

function jwt(r, start) {
  const header = run(r.set, start, maxJWTHeader, 0)
  if (at(header) !== dot) return none
  const payload = run(r.set, header + 1, r.max, 0)
  if (runLength === 0 || at(payload) !== dot) return none
  if (!hasClaims(r.claim, b.slice(header + 1, payload)) || !hasAlgorithm(b.slice(start, header))) return none
  const end = run(r.set, payload + 1, maxJWTHeader, 0)
  return span(start, start, end, end)
}

// parse returns the object of a segment, null if it is none. Numbers beyond a double are refused if exact is set.
function parse(segment, exact) {
  if (segment.length % 4 === 1) return null
  try {
    const text = atob(segment.replace(/-/g, '+').replace(/_/g, '/'))
    const object = JSON.parse(text, (_, value) => {
      if (exact && (value === Infinity || value === -Infinity)) throw new RangeError()
      return value
    })
    return object && typeof object === 'object' && !Array.isArray(object) ? { object, text } : null
  } catch {
    return null
  }
}

function hasAlgorithm(segment) {
  const header = parse(segment, false)
  if (!header || !header.text.includes('"alg"')) return false
  let algorithm = null
  for (const name of Object.keys(header.object)) {
    if (name.toLowerCase() !== 'alg') continue
    algorithm = header.object[name]
    if (algorithm !== null && typeof algorithm !== 'string') return false
  }
  return algorithm !== null
}

function hasClaims(claim, segment) {
  if (!claim) return true
  const payload = parse(segment, true)
  return payload !== null && Object.keys(claim).every((name) =>
    payload.text.includes(claim[name]) && Object.hasOwn(payload.object, name) && payload.object[name] === claim[name])
}

