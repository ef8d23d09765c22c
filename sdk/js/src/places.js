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
export const maxUser = 128
export const maxPassword = 256
export const maxHost = 255

export function pem(r, start, after) {
  const body = labelEnd(after)
  if (body < 0) return none
  if (!r.min) return span(start, start, body, body)
  const whole = limit
  setLimit(Math.min(limit, body + r.max))
  const end = pemEnd(body)
  setLimit(whole)
  return end < 0 ? none : span(start, body, end, end)
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

function pemEnd(i) {
  let [first, line, total, found, end, isList] = ['', 0, 0, false, i]
  while (i < limit) {
    const c = read(i)
    let behind = next
    if (c === dash) {
      const last = readText(i, '-----END')
      if (last >= 0 && found && !isExcerpt(first, total)) return lastLineEnd(last)
      if (readText(i, '-----BEGIN') >= 0) break
      line = 0
    } else if (charsets.base64[c]) {
      if (total < 8) first += String.fromCharCode(c)
      total++
      if (++line >= minLine) found = true
      end = behind
    } else if (isIn('\n\r\t :,.', c)) {
      line = 0
    } else if (isQuote(c)) {
      behind = skipJoint(i, isList ||= !total)
      if (behind < 0) break
      line = 0
    } else {
      break
    }
    i = behind
  }
  return !found || isExcerpt(first, total) ? -1 : end
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
    else if (!isIn('\n\r\t +-', c) && (!isList || c !== 44)) break
  }
  return joint
}

function isExcerpt(first, total) {
  if (total >= 384 || !/^[^=]{6}([^=][^=]|[^=]=|==)$/.test(first)) return false
  const der = atob(first)
  return der.charCodeAt(0) === 0x30 && der.charCodeAt(1) === 0x82 &&
    Math.floor(total * 3 / 4) < (((der.charCodeAt(2) << 8) | der.charCodeAt(3)) >> 1)
}

function lastLineEnd(end) {
  for (let i = end; i < Math.min(limit, end + 2 * maxLabel); i++) {
    const behind = readText(i, '-----')
    if (behind >= 0) return behind
  }
  return end
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
