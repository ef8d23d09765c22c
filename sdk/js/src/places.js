// The matchers of private keys, URIs and assignments: pem.go, uri.go and assign.go of package secrets.
import { suffixes } from './rules.gen.js'
import {
  at, b, charsets, colon, dash, equal, equals, hasAt, hasContent, isDigit, isIn, isSeparator, isWord, limit, next,
  none, partEnd, percentLevel, plus, read, readText, setLimit, setNext, skipColour, span,
} from './text.js'

const maxName = 48
export const maxOperator = 64
export const maxLabel = 40
const minLine = 48
const maxNoise = 128
export const maxUser = 128
export const maxPassword = 256
export const maxHost = 255

export function pem(r, start, after) {
  const isDER = at(start) !== dash
  const from = isDER ? start : labelEnd(after)
  const size = isDER ? keySize(start) : 0
  if (from < 0 || size < 0) return none
  const whole = limit
  setLimit(Math.min(limit, from + r.max))
  const key = keyText(from, isDER, false, size)
  setLimit(whole)
  return key.ok ? span(start, from, key.end, key.end) : none
}

function readLabel(i) {
  const c = read(i)
  return c === plus ? 32 : c
}

function readLabelText(i, text) {
  for (let k = 0; k < text.length; k++) {
    if (i >= limit || readLabel(i) !== text.charCodeAt(k)) return -1
    i = next
  }
  return i
}

export function labelEnd(i) {
  const key = 'PRIVATE KEY'
  let seen = 0
  for (let n = 0; i < limit && n < maxLabel; n++) {
    const c = readLabel(i)
    i = next
    if (c === key.charCodeAt(seen)) {
      seen++
    } else if (c === 80) {
      seen = 1
    } else if (c === 10 || c === 13 || c === 0) {
      return -1
    } else {
      seen = 0
    }
    if (seen === key.length) {
      const end = readLabelText(i, '-----')
      return end >= 0 ? end : readLabelText(i, ' BLOCK-----')
    }
  }
  return -1
}

export function keyText(i, needsLine, isList, size) {
  let [text, whole, line, noise, wholeEnd, end, lineStart, between, last] = ['', '', 0, false, i, i, 0, 0, 0]
  let joint, plain, plainEnd
  const result = () => {
    let ok = whole
    if (!last && joint !== undefined && !(size && whole.length >= size)) [text, end, ok] = [plain, plainEnd, plain]
    const least = needsLine ? size >> 1 || 192 : 0
    return { text, end, ok: ok && text.length >= least && !isExcerpt(text) }
  }
  for (let behind; i < limit && (!size || whole.length < size) && (!noise || line || i <= wholeEnd + maxNoise); i = behind) {
    const c = read(i)
    behind = next
    if (charsets.base64[c]) {
      if (!line) {
        lineStart = i
        if ((noise ||= needsLine && text !== whole)) text = whole
      }
      text += String.fromCharCode(c)
      if (++line >= minLine || (text.length === size && (!between || lineStart - wholeEnd === between))) {
        if (noise) {
          if (!whole && !/^[Mb]/.test(text)) return result()
          const noiseText = b.slice(wholeEnd, lineStart).replace(/^[ \t\r\n]+/, '')
          if (joint === undefined) [joint, plain, plainEnd] = [noiseText, whole, end]
          else if (joint !== noiseText) return result()
          between = lineStart - wholeEnd
          noise = false
        }
        whole = text
        wholeEnd = behind
      }
      if (!noise) end = behind
      continue
    }
    const colour = skipColour(i)
    if (needsLine && !whole) {
      if (colour === i) return result()
      behind = colour
      continue
    }
    if (c === dash) {
      const behindEnd = readText(i, '-----END')
      if (behindEnd >= 0) {
        end = lastLineEnd(behindEnd)
        last = i
        break
      }
      if (readText(i, '-----BEGIN') >= 0) break
    } else if (isQuote(c)) {
      behind = skipJoint(i, isList ||= !text)
      if (behind < 0) break
    } else if (!isIn('\n\r\t :,.', c)) {
      if (colour > i) {
        behind = colour
        continue
      }
      noise = true
    }
    line = 0
  }
  if (noise) {
    text = whole
    for (let k = wholeEnd + between, c; k < last && charsets.base64[c = read(k)]; k = next) text += String.fromCharCode(c)
  }
  return result()
}

export function skipJoint(i, isList) {
  let joint = -1
  read(i)
  i = next
  for (let n = 0; i < limit && n < 256; n++, i = next) {
    const colour = skipColour(i)
    const c = read(i)
    if (colour > i) setNext(colour)
    else if (isQuote(c)) joint = next
    else if (!isIn('\n\r\t +-\\', c) && (!isList || c !== 44)) break
  }
  return joint
}

export function keySize(i) {
  if (at(i) === 98) return 0 // b
  let text = ''
  for (; text.length < 16; i = next) {
    if (i >= limit) return -1
    text += String.fromCharCode(read(i))
  }
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return -1
  const der = [...atob(text)].map((c) => c.charCodeAt(0))
  const more = Math.max(0, der[1] - 128) // bytes of the size
  const [version, length, value, object] = der.slice(2 + more)
  if (der[0] !== 48 || more > 2 || version !== 2 || length !== 1 || value > 1 || ![48, 2, 4].includes(object)) return -1
  const size = more === 2 ? der[2] << 8 | der[3] : der[1 + more]
  return Math.floor((4 + more + size) / 3) * 4
}

function isExcerpt(text) {
  const first = text.slice(0, 8)
  if (text.length >= 384 || !/^[^=]{6}([^=][^=]|[^=]=|==)$/.test(first)) return false
  const der = atob(first)
  return der.charCodeAt(0) === 0x30 && der.charCodeAt(1) === 0x82 &&
    Math.floor(text.length * 3 / 4) < (((der.charCodeAt(2) << 8) | der.charCodeAt(3)) >> 1)
}

function lastLineEnd(end) {
  for (let i = end; i < Math.min(limit, end + 2 * maxLabel); i++) {
    const behind = readText(i, '-----')
    if (behind >= 0) return behind
  }
  return end
}

const jwkMembers = ['kty', 'crv', 'd', 'k', 'p', 'q', 'dp', 'dq', 'qi']

export function jwk(r, start) {
  const k = readJWK(start, Math.min(limit, start + r.max))
  if (!k.kty || !k[k.kty === 'oct' ? 'k' : 'd']) return none
  return span(k.start, ...k.secret, k.end)
}

// readJWK returns the members that were read, by name, and where the private ones start and end.
export function readJWK(i, to) {
  const k = {}
  let [name, hasColon] = ['', false]
  while (i < to) {
    if (!charsets.urlsafe[at(i)]) {
      const colour = skipColour(i)
      const c = read(i)
      if (colour > i) setNext(colour)
      else if (c === 125) break
      else if (c === colon) hasColon = true
      i = next
      continue
    }
    const start = i
    while (i < to && charsets.urlsafe[at(i)]) i++
    const word = b.slice(start, i)
    if (hasColon) {
      if (jwkMembers.includes(name)) {
        if (k[name] || !addMember(k, name, word, start, i)) break
      } else if (!k.isBegun) break
      name = ''
      hasColon = false
    } else if (name && !k.isBegun) break
    else name = word
  }
  return k
}

function addMember(k, name, value, start, end) {
  if (name === 'kty') {
    k.kty = /^(RSA|EC|OKP|oct)$/.exec(value.slice(0, 4))?.[0]
    if (!k.kty) return false
  } else if (name !== 'crv') {
    if (value.length < 22) return false
    k.start ??= start
    k.end = end
    if (name === 'd' || name === 'k') k.secret = [start, end]
  }
  k[name] = value
  return k.isBegun = true
}

export function uri(start, after) {
  let scheme = after - 1
  const srv = readText(scheme, '+srv')
  if (srv >= 0) scheme = srv
  const user = readText(scheme, '://')
  if (user < 0) return none
  const level = percentLevel(scheme)
  let from = userEnd(user, level)
  if (from < 0) return none
  read(from)
  from = next
  const end = passwordEnd(from, level)
  if (end < 0 || isPlaceholder(b.slice(from, end))) return none
  read(end)
  return span(start, from, end, hostEnd(next))
}

export function passwordEnd(from, level) {
  let [end, ats] = [-1, 0]
  for (let i = from, n = 0, behind; i < limit && n <= maxPassword; n++, i = behind) {
    const c = read(i)
    behind = next
    if (percentLevel(i) > level) continue
    if (c === 64) {
      if (hostEnd(behind) > behind && (ats || i - from > 5)) end = i
      ats++
    } else if (endsUser(c) || (ats && isIn('?#', c))) {
      break
    }
  }
  return end
}

export function userEnd(i, level) {
  for (let n = 0, behind; i < limit && n <= maxUser; n++, i = behind) {
    const c = read(i)
    behind = next
    if (percentLevel(i) > level) continue
    if (c === colon) return i
    if (c === 64 || endsUser(c)) break
  }
  return -1
}

const endsUser = (c) => c <= 32 || isIn('"\'`<>/\\', c)

function hostEnd(i) {
  let end = i
  for (let n = 0; i < limit && n < maxHost; n++) {
    const c = read(i)
    if (!charsets.dotted[c] && !isIn(':/,[]', c)) break
    i = next
    if (c !== 44 && c !== colon) end = i
  }
  return end
}

const isPlaceholder = (password) => /[${}[\](]/.test(password) || password === password[0].repeat(password.length)

export function assign(r, start, after) {
  if (exceptName(r, start)) return none
  const a = readAssignment(start, skipSuffix(after))
  if (!a || a.value - after > maxOperator) return none
  const end = partEnd(r, a.value, a.level, false)
  if (end < 0 || !endsValue(a, end) || !hasContent(r, a.value, end)) return none
  if (r.generic && (isNoSecret(a, end) ||
    (isCode(a, start) && !isNamedConstant(b.slice(start, after), end - a.value)))) return none
  return span(a.value, a.value, end, end)
}

function exceptName(r, start) {
  const end = start > 0 && isSeparator(at(start - 1)) ? start - 1 : start
  return (r.except || []).some((word) => end - word.length >= 0 && equal(end - word.length, word, true))
}

function skipSuffix(i) {
  let end = i
  if (isSeparator(at(end))) {
    end++
    for (const suffix of suffixes) {
      const behind = end + suffix.length
      if (behind <= limit && equal(end, suffix, true) && !isWord[at(behind)]) return behind
    }
  }
  while (end < i + 4 && isDigit(at(end))) end++
  return end > i && isSeparator(at(end - 1)) ? i : end
}

export const isQuote = (c) => isIn('"\'`', c)
const char = (i) => (i < limit ? read(i) : (setNext(i), 0))

function readAssignment(start, nameEnd) {
  const a = { nameQuoted: false, value: 0, spaces: false, plus: false, operator: 0, arrow: false, quote: 0, level: 2 }
  let i = skipColour(nameEnd)
  if (isQuote(char(i))) {
    a.nameQuoted = true
    i = next
  }
  i = skipSpaces(a, i)
  a.level = 0
  for (let n = 0; n < 2; n++) {
    const c = char(i)
    const behind = next
    if (c !== equals && c !== colon && (c !== 62 || a.nameQuoted || a.spaces)) break
    a.level = percentLevel(i)
    i = behind
    if (a.operator === equals && c === 62) a.arrow = true
    else a.operator = c
  }
  if (!a.operator && !(a.spaces && hasAt(nameStart(start), '--'))) return null
  if (a.plus && a.level === 0) return null // an addition
  i = skipSpaces(a, i)
  const c = char(i)
  if (isQuote(c)) {
    a.quote = c
    i = next
  }
  a.value = i
  return a
}

function skipSpaces(a, i) {
  while (i < limit) {
    const colour = skipColour(i)
    if (colour > i) {
      i = colour
      continue
    }
    const c = read(i)
    const behind = next
    if (c !== 32 && c !== 9 && (c !== plus || percentLevel(i) >= a.level)) break
    a.spaces = true
    a.plus = a.plus || c === plus
    i = behind
  }
  return i
}

function nameStart(i) {
  const least = Math.max(0, i - maxName)
  while (i > least && (isWord[at(i - 1)] || at(i - 1) === dash)) i--
  return i
}

function endsValue(a, i) {
  if (i >= limit) return true
  const c = read(i)
  if (a.quote) return c === a.quote
  if (a.operator === 62) return c === 60
  if (c === plus) return percentLevel(i) < a.level // a space
  return isIn(' \t\r\n&,;)]}"\'`<|', c) || skipColour(i) > i
}

function isCode(a, start) {
  if (a.nameQuoted || !a.quote || a.spaces || a.arrow) return false
  const i = nameStart(start)
  return i > 0 && ',{});.[?!&|='.includes(b[i - 1])
}

const isNamedConstant = (name, length) => length >= 20 && !/[a-z]/.test(name) && /(KEY|SECRET)$/.test(name)

function isNoSecret(a, end) {
  const value = b.slice(a.value, end)
  const count = (characters) => (value.match(characters) || []).length
  const hex = count(/[0-9a-fA-F]/g)
  return value[0] === '$' || value.includes('.$') || ('/.~'.includes(value[0]) && count(/\//g) > 1) ||
    (count(/-/g) === 4 && hex === 32 && value.length === 36) || (hex === value.length && hex < 32) ||
    (!a.quote && /^[\w.]*\.[\w.]*$/.test(value) && !/(^|\.)\d/.test(value))
}
