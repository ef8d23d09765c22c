// Masks and canonical texts: mask.go, Canonical and the masks of uri.go in package secrets.
import { at, b, dash, entropy, equal, limit, next, percentLevel, read, readText, rounding, within } from './text.js'
import { keySize, keyText, labelEnd, passwordEnd, readJWK, userEnd } from './places.js'

export const hidden = '***'

const safe = (text) => text.replace(/[^!-~]|["\\<>&]/g, '?')

export function maskOf(r, secret) {
  if (r.kind === 'pem') return '-----BEGIN ' + hidden
  if (r.kind === 'uri') return within(secret, () => maskURI(secret))
  const head = headLength(r, secret)
  return safe(secret.slice(0, head)) + hidden + (secret.length - head - 4 >= 20 ? safe(secret.slice(-4)) : '')
}

function headLength(r, secret) {
  if (r.kind === 'assign' || r.kind === 'jwk' || r.lead) return 0
  const prefix = r.prefixes.find((p) => secret.length >= p.length && within(secret, () => equal(0, p, r.fold)))
  return prefix ? Math.min(8, prefix.length) : 0
}

// unescape returns the text from a position to another without its escapes.
function unescape(i, end) {
  return within(b.slice(i, end), () => {
    let out = ''
    for (let k = 0; k < limit; k = next) out += String.fromCharCode(read(k))
    return out
  })
}

function maskURI(secret) {
  let scheme = secret.search(/[:%+]/)
  if (scheme < 0) return hidden
  const srv = readText(scheme, '+srv')
  if (srv >= 0) scheme = srv
  const level = percentLevel(scheme)
  const userStart = readText(scheme, '://')
  const userStop = userEnd(Math.max(0, userStart), level)
  if (userStart < 0 || userStop < 0) return hidden
  read(userStop)
  const passwordStart = next
  const atSign = passwordEnd(passwordStart, level)
  if (atSign < 0) return hidden
  read(atSign)
  const rest = unescape(next, limit)
  let user = unescape(userStart, userStop)
  let out = safe(unescape(0, scheme)) + '://'
  if (isName(user) && !overlaps(user, unescape(passwordStart, atSign))) {
    out += safe(user.slice(0, 4))
    user = user.slice(4)
  }
  out += (user ? hidden : '') + ':' + hidden + '@'
  const cut = rest.indexOf('/')
  const host = cut < 0 ? rest : rest.slice(0, cut)
  out += host.split('.').map((label) => (isHostLabel(label) ? safe(label) : hidden)).join('.')
  if (cut >= 0) {
    const path = rest.slice(cut + 1)
    out += '/' + (isName(path) ? safe(path) : hidden)
  }
  return out.slice(0, 80)
}

function isName(text) {
  if (text.length <= 4) return true
  return /^[A-Za-z\-_.]+$/.test(text) && text.length <= 19 && /[a-z]/.test(text) !== /[A-Z]/.test(text) &&
    entropy(text) < 3.5 - rounding
}

const isHostLabel = (text) => text.length <= 32 && (!/[A-Z]/.test(text) || !/[0-9]/.test(text))

function overlaps(one, other) {
  one = one.toLowerCase()
  other = other.toLowerCase()
  return one.includes(other) || other.includes(one)
}

// canonical returns the secret without the escapes of its wrapper: of a private key the base64 of its body, of a JSON Web Key its d or k.
export function canonical(r, secret) {
  return within(secret, () => {
    if (r.kind === 'jwk') {
      const [value] = /^[\w-]*/.exec(secret)
      const name = readJWK(value.length, limit).secret
      return name ? secret.slice(...name) : value
    }
    if (r.kind === 'pem') {
      const isDER = at(0) !== dash
      const from = isDER ? 0 : labelEnd(r.prefixes[0].length)
      return from < 0 ? secret : keyText(from, false, true, isDER && Math.max(0, keySize(0))).text
    }
    const out = unescape(0, limit)
    return out.length !== secret.length ? out : secret
  })
}
