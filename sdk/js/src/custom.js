// Validates the option rules: built-in rules that are disabled, and rules of the application itself.
import { charsets } from './rules.gen.js'

const maxExtra = 50

export function validateRules({ disable = [], extra = [] } = {}) {
  if (!Array.isArray(disable) || !Array.isArray(extra) || extra.length > maxExtra) {
    throw new TypeError('see index.d.ts')
  }
  return { disable, extra: extra.map(validateRule) }
}

function validateRule({ id, prefixes, charset = 'alnum', min = 16, max = 128, entropy = 0 }) {
  const isPrefix = (p) => typeof p === 'string' && /^[!-~]{3,40}$/.test(p)
  const isLength = (n, least) => Number.isInteger(n) && n >= least && n <= 1024
  for (const [member, isValid] of Object.entries({
    id: /^[a-z0-9-]{1,40}$/.test(id),
    prefixes: Array.isArray(prefixes) && prefixes[0] && !prefixes[10] && prefixes.every(isPrefix),
    charset: Object.hasOwn(charsets, charset),
    min: isLength(min, 8),
    max: isLength(max, min),
    entropy: entropy >= 0 && entropy <= 6,
  })) {
    if (!isValid) throw new TypeError(`${member} of rule ${String(id).slice(0, 40)}, see index.d.ts`)
  }
  return { id: `custom:${id}`, kind: 'token', prefixes, charset, min, max, entropy }
}
