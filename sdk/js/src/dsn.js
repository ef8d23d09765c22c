// Base62 and the DSN (docs/design/reports.md).
import { charsets } from './text.js'

const { alnum } = charsets
export const digits = String.fromCharCode(...[...alnum.keys()].filter((c) => alnum[c]))

// randomId returns 22 random characters of base62.
export function randomId(length = 22) {
  let out = ''
  while (out.length < length) {
    const [c] = crypto.getRandomValues(new Uint8Array(1))
    if (c < 248) out += digits[c % 62] // 248 = 4 × 62: each digit is as probable
  }
  return out
}

// parseDSN returns where reports go and the salt of fingerprints, null if the text is no DSN.
export function parseDSN(dsn) {
  const m = /^\s*(https?):\/\/(pk[0-9A-Za-z]{44})@([^/?#@\s]+)((?:\/[^/?#@\s]+)*)\/(dsn_[0-9A-Za-z]{1,40})\s*$/.exec(String(dsn))
  if (!m || m[0].length > 512) return null
  const [, scheme, key, host, path, id] = m
  let url
  try {
    url = new URL(`${scheme}://${host}${path}/api/${id}/reports?k=${key}&v=1`)
  } catch {
    return null
  }
  if (scheme === 'http' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname)) return null
  let number = 0n
  for (const c of key.slice(24)) number = number * 62n + BigInt(digits.indexOf(c))
  if (number >> 128n) return null
  const salt = Uint8Array.from({ length: 16 }, (_, i) => Number((number >> BigInt(120 - 8 * i)) & 255n))
  return { url: url.href, host: url.host, salt }
}
