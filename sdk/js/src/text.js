// Reads text as it was before wrappers escaped it, and says where words begin: escape.go, boundary.go and charset.go of
// package secrets. One text is read at a time; other modules read the variables b, limit and next, and never wait
// between.
import { charsets as ranges } from './rules.gen.js'

const lookBehind = 48
const maxBackslashes = 8

const code = (text) => text.charCodeAt(0)
export const [backslash, percent, ampersand, hash, plus, equals, dash, dot, slash, colon] = [...'\\%&#+=-./:'].map(code)

function newCharset(text) {
  const set = new Uint8Array(256)
  for (let i = 0; i < text.length; i += 2) {
    for (let c = text.charCodeAt(i); c <= text.charCodeAt(i + 1); c++) set[c] = 1
  }
  set.padded = set[plus] && !set[dash] // nothing but '=' follows a '='
  set.escaped = set[slash] || set[plus] || set[equals]
  if (set.escaped) {
    set.single = set.slice()
    for (const c of [backslash, percent, ampersand, hash, plus]) set.single[c] = 0
    if (set.padded) set.single[equals] = 0
  }
  return set
}

export const charsets = {}
for (const name in ranges) charsets[name] = newCharset(ranges[name])
export const isWord = charsets.word
const isHex = charsets.hex
export const isLetter = (c) => (c | 32) >= 97 && (c | 32) <= 122
export const isSeparator = (c) => c === dash || c === dot || c === 95
const isOctal = (c) => c >= 48 && c <= 55
export const isDigit = (c) => c >= 48 && c <= 57
export const lower = (c) => (c >= 65 && c <= 90 ? c | 32 : c)

// The text that is read, where reading ends, and the position behind the character that read returned.
export let b = ''
export let limit = 0
export let next = 0

export function setLimit(to) { limit = to }

export function setNext(to) { next = to }

// forgetRuns must be called before another text is scanned.
export function forgetRuns() { runs = new Map() }

// within calls f while another text is read.
export function within(text, f) {
  const before = [b, limit]
  b = text
  limit = text.length
  try {
    return f()
  } finally {
    [b, limit] = before
  }
}

// isIn reports whether a text has a character.
export const isIn = (text, c) => text.includes(String.fromCharCode(c))

export const at = (i) => (i < limit ? b.charCodeAt(i) : -1)
export const hasAt = (i, text) => i >= 0 && i + text.length <= limit && b.startsWith(text, i)
export function read(i) {
  const c = at(i)
  next = i + 1
  switch (c) {
    case backslash: return readBackslash(i)
    case percent: return readPercent(i) >= 0 ? percentChar : c
    case ampersand: return readEntity(i)
    case hash: return readSyslog(i)
  }
  return c >= 0x80 || (c < 32 && c !== 10 && c !== 13 && c !== 9) ? 0 : c
}

function readBackslash(i) {
  let j = i
  while (j < i + maxBackslashes && at(j) === backslash) j++
  const c = at(j)
  next = j + 1
  switch (c) {
    case 47: case 34: case 39: case 96: return c
    case 110: return 10
    case 114: return 13
    case 116: return 9
    case 117: {
      const high = readHex(j + 1)
      const low = readHex(j + 3)
      if (high >= 0 && low >= 0) {
        next = j + 5
        return high || low >= 0x80 ? 0 : low
      }
      break
    }
    case 120: {
      const low = readHex(j + 1)
      if (low >= 0) {
        next = j + 3
        return low >= 0x80 ? 0 : low
      }
    }
  }
  next = i + 1
  return backslash
}

let percentChar = 0

// readPercent returns how often the character at a position is percent-encoded, -1 if it is not: 1 or 2.
function readPercent(i) {
  let c = readHex(i + 1)
  if (c < 0) return -1
  let level = 1
  if (c === percent) {
    const again = readHex(i + 3)
    if (again >= 0) [c, level] = [again, 2]
  }
  next = i + 1 + 2 * level
  percentChar = c >= 0x80 ? 0 : c
  return level
}

export function percentLevel(i) {
  if (at(i) !== percent) return 0
  const level = readPercent(i)
  return level < 0 || percentChar === 0 ? 0 : level
}

export function levelBefore(end) {
  for (let level = 2; level > 0; level--) {
    const i = end - 1 - 2 * level
    if (i >= 0 && percentLevel(i) === level) return level
  }
  return 0
}

function readSyslog(i) {
  if (at(i + 1) !== 48 || !isOctal(at(i + 2)) || !isOctal(at(i + 3))) return hash
  next = i + 4
  const c = ((at(i + 2) - 48) << 3) | (at(i + 3) - 48)
  return c === 10 || c === 13 || c === 9 ? c : 0
}

function readHex(i) {
  return isHex[at(i)] && isHex[at(i + 1)] ? (hexDigit(at(i)) << 4) | hexDigit(at(i + 1)) : -1
}

const hexDigit = (c) => (c <= 57 ? c - 48 : (c | 32) - 87)

const entities = { quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' }

function readEntity(i) {
  const [all, name, decimal, hex] = /^&(?:(quot|apos|amp|lt|gt)|#(\d{1,4})|#[xX]([\da-fA-F]{1,4}));/.exec(b.slice(i, i + 9)) || ['']
  const c = name ? code(entities[name]) : decimal ? +decimal : parseInt(hex, 16)
  if (!(c > 0 && c < 0x80) || i + all.length > limit) return ampersand
  next = i + all.length
  return c
}

// readText returns the position after a text, whose characters may be escaped; -1 if it is not there.
export function readText(i, text) {
  for (let k = 0; k < text.length; k++) {
    if (i >= limit || read(i) !== text.charCodeAt(k)) return -1
    i = next
  }
  return i
}

export const isBoundary = (start) => start === 0 || !isWord[at(start - 1)] || endsEscape(start) || endsColour(start)

export function endsEscape(end) {
  const back = (n) => at(end - n)
  const last = back(1)
  if (isIn('bfnrt', last) && back(2) === backslash) return true
  if (!isHex[last] || !isHex[back(2)]) return false
  if (back(3) === percent || (back(5) === percent && back(4) === 50 && back(3) === 53) ||
    (back(3) === 120 && back(4) === backslash)) return true
  if (!isHex[back(3)]) return false
  return (isOctal(last) && isOctal(back(2)) && isOctal(back(3)) && (back(4) === backslash || back(4) === hash)) ||
    Boolean(isHex[back(4)] && back(5) === 117 && back(6) === backslash)
}

const escapes = ['\x1b', '\\x1b', '\\x1B', '\\u001b', '\\u001B', '\\033', '\\e', '#033', '^[']

export function endsColour(end) {
  if (!isLetter(at(end - 1))) return false
  let i = end - 2
  const least = Math.max(0, end - lookBehind + 8)
  for (let c; i >= least && (isDigit(c = at(i)) || c === 59 || c === colon || c === 63);) i--
  return i >= 1 && at(i) === 91 && escapes.some((text) => hasAt(i - text.length, text))
}

const escapeNames = ['x1b', 'x1B', 'u001b', 'u001B', '033', 'e']

export function skipColour(start) {
  let i = start
  if (at(i) === 0x1b) {
    i++
  } else if (at(i) === backslash) {
    while (i < start + maxBackslashes && at(i) === backslash) i++
    const name = escapeNames.find((text) => hasAt(i, text))
    if (!name) return start
    i += name.length
  } else if (hasAt(i, '#033') && i + 4 < limit) {
    i += 4
  } else {
    return start
  }
  if (at(i) !== 91) return start
  for (i++; i < limit && i < start + lookBehind; i++) {
    if (isLetter(at(i))) return i + 1
  }
  return start
}

// runs remembers, for each set, a part of the text that has its characters only: it is read once.
let runs = new Map()
export let runLength = 0

function endOf(set, from, most) {
  let known = runs.get(set)
  if (!known) runs.set(set, known = { from: 0, end: 0 })
  let end = from >= known.from && from < known.end ? known.end : from
  while (end < most && set[b.charCodeAt(end)]) end++
  known.from = from
  known.end = Math.max(end, from)
  return Math.min(end, most)
}

// run returns where the set's characters from a position end; runLength is their number.
export function run(set, from, most, level) {
  if (!set.escaped) {
    const end = endOf(set, from, Math.min(limit, from + most))
    runLength = end - from
    return end
  }
  let last = 0
  let end = from
  let n = 0
  for (; n < most && end < limit; n++) {
    if (set.single[at(end)] && !(set.padded && last === equals)) {
      const to = endOf(set.single, end, Math.min(limit, end + most - n))
      n += to - end - 1 // and one more by the loop
      last = at(to - 1)
      end = to
      continue
    }
    const c = read(end)
    const behind = next
    if (!set[c] || (set.padded && last === equals && c !== equals)) break
    if (at(end) === percent || c === plus) {
      const here = percentLevel(end)
      if (here < level && c === plus) break // a space
      if (here > level) level = here
    }
    last = c
    end = behind
  }
  runLength = n
  return end
}

// equal compares the text at a position with a prefix or a name. With fold, the prefix is in lower case, and its '_' stands
// for '-' and '.' too.
export function equal(i, prefix, fold) {
  if (!fold) return b.startsWith(prefix, i)
  for (let k = 0; k < prefix.length; k++) {
    const c = b.charCodeAt(i + k)
    const want = prefix.charCodeAt(k)
    if (lower(c) !== want && (want !== 95 || !isSeparator(c))) return false
  }
  return true
}

// The span of a match: b[start..end), whose secret characters are b[from..to).
export const none = null
export const span = (start, from, to, end) => ({ start, from, to, end })

export function partEnd(p, from, level, cut) {
  const end = run(p.set, from, cut ? p.max : p.max + 1, level)
  return runLength < (p.min || 0) || runLength > p.max ? -1 : end
}

export function hasContent(r, from, end) {
  const secret = b.slice(from, end)
  return (r.need || []).every((name) => containsAny(secret, charsets[name])) && (!r.contains || secret.includes(r.contains))
}

function containsAny(text, set) {
  for (let i = 0; i < text.length; i++) if (set[text.charCodeAt(i)]) return true
  return false
}

// rounding is what this engine and the relay's may differ by in an entropy.
export const rounding = 1e-9

export function entropy(text) {
  const counts = new Map()
  for (let i = 0; i < text.length; i++) counts.set(text.charCodeAt(i), (counts.get(text.charCodeAt(i)) || 0) + 1)
  let sum = 0
  for (const n of counts.values()) sum -= (n / text.length) * Math.log2(n / text.length)
  return sum
}
