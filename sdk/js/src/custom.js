// Validates the option rules: built-in rules that are disabled, and rules of the application itself.
import { charsets } from './rules.gen.js'

const maxExtra = 50

export function validateRules({ disable = [], extra = [] } = {}) {
  if (!Array.isArray(disable) || !Array.isArray(extra)) throw new TypeError('disable and extra must be arrays')
  if (extra.length > maxExtra) throw new RangeError(`extra has more than ${maxExtra} rules`)
  return { disable, extra: extra.map(validateRule) }
}

function validateRule({ id, prefixes, charset = 'alnum', min = 16, max = 128, entropy = 0 }) {
  const problem = !/^[a-z0-9-]{1,40}$/.test(id) ? 'id must have 1 to 40 characters of a-z, 0-9 and -'
    : !Array.isArray(prefixes) || !prefixes.length || prefixes.length > 10 ||
      !prefixes.every((p) => typeof p === 'string' && /^[!-~]{3,40}$/.test(p)) ? 'prefixes must be 1 to 10 texts of 3 to 40 ASCII characters'
      : !Object.hasOwn(charsets, charset) ? `charset must be one of ${Object.keys(charsets).join(', ')}`
        : !(Number.isInteger(min) && Number.isInteger(max) && min >= 8 && max >= min && max <= 1024) ? 'min and max must be from 8 to 1024'
          : !(entropy >= 0 && entropy <= 6) ? 'entropy must be from 0 to 6' : ''
  if (problem) throw new TypeError(`rule ${String(id).slice(0, 40)}: ${problem}`)
  return { id: `custom:${id}`, kind: 'token', prefixes, charset, min, max, entropy }
}
