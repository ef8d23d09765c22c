// Makes a secret of each built-in rule from the rule's own structure. Each run makes the same; no file has one.
import { newScanner } from '../src/engine.js'
import { find } from '../src/lines.js'
import { maskOf } from '../src/mask.js'
import { charsets } from '../src/rules.gen.js'
import { checksum } from '../src/shapes.js'

// The rule of an application, beside those of the SDK.
export const extra = [{ id: 'acme', prefixes: ['acme_'], charset: 'urlsafe', min: 24, max: 60 }]

let state = 27

// below returns a number from 0 to n - 1.
function below(n) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return Math.floor(state / 2 ** 32 * n)
}

function charactersOf(ranges) {
  let out = ''
  for (let i = 0; i < ranges.length; i += 2) {
    for (let c = ranges.charCodeAt(i); c <= ranges.charCodeAt(i + 1); c++) out += String.fromCharCode(c)
  }
  return out.replace('=', '') // it only ends a secret
}

const some = (characters, n) => Array.from({ length: n }, () => characters[below(characters.length)]).join('')

function part({ charset, min, max, separator = '', contains = '' }) {
  const n = min + below(Math.min(max - min, 40) + 1)
  const text = some(charactersOf(charsets[charset]), n)
  return separator + text.slice(0, 8) + contains + text.slice(8 + contains.length)
}

const segment = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')

// textOf returns a text with a secret of a rule, which may be too regular to be found.
function textOf(rule) {
  const prefix = rule.prefixes[below(rule.prefixes.length)]
  const line = () => some(charactersOf(charsets.base64), 64)
  switch (rule.kind) {
    case 'jwt': return [{ alg: 'HS256' }, { ...rule.claim, ref: part({ charset: 'alnum', min: 20, max: 20 }) }].map(segment).join('.') + '.' + some(charactersOf(charsets.urlsafe), 43)
    case 'jwk': return `{"kty":"OKP","crv":"Ed25519","d":"${some(charactersOf(charsets.urlsafe), 43)}"}`
    case 'pem': return `-----BEGIN PRIVATE KEY-----\n${line()}\n${line()}\n${line()}\n-----END PRIVATE KEY-----\n`
    case 'uri': return `${prefix}://application:${some(charactersOf(charsets.alnum), 24)}@db.internal/main`
    case 'assign': return `${prefix}=${part(rule)}`
  }
  if (rule.check) {
    const random = some(charactersOf(charsets.alnum), 32)
    return prefix + random + checksum(random)
  }
  return (rule.lead ? part(rule.lead) : '') + prefix + part(rule) + (rule.then || []).map(part).join('')
}

// secrets returns {text, rule, prefixes, secret, masked} of each rule.
export function secrets() {
  state = 27
  const scanner = newScanner({ extra: extra.map((r) => ({ ...r, id: `custom:${r.id}`, kind: 'token', entropy: 0 })) })
  return scanner.rules.map((rule) => {
    for (let i = 0; i < 1000; i++) {
      const text = textOf(rule)
      const found = find(scanner, `/app/${text} x`)
      if (found.length === 1 && found[0].rule === rule) {
        return { text, rule: rule.id, prefixes: rule.prefixes, hasFingerprint: Boolean(rule.fingerprint), secret: found[0].secret, masked: maskOf(rule, found[0].secret) }
      }
    }
    throw new Error(`no secret of ${rule.id} is found`)
  })
}
