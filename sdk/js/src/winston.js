import { clean, withheld, withhold } from './node.js'

const maxDepth = 20
const maxValues = 10_000

// relayFormat returns a format for winston that masks all strings of an entry, and its text if a format has made it.
export function relayFormat() {
  return { transform: function transform(info) {
    try {
      return copy(info, new WeakMap(), { left: maxValues, entry: transform }, 0)
    } catch (error) {
      withhold(error)
      const out = { level: info.level, message: withheld }
      for (const key of Object.getOwnPropertySymbols(info)) out[key] = typeof info[key] === 'string' ? info[key] : []
      out[Symbol.for('message')] = withheld
      return out
    }
  } }
}

// copy returns a value with all strings masked: itself if nothing is.
function copy(value, seen, budget, depth) {
  if (typeof value === 'string') return clean(value, 'winston', budget.entry)
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return value
  if (seen.has(value)) return seen.get(value)
  if (depth > maxDepth || --budget.left < 0) throw new RangeError('the entry is too large')
  const isPlain = Array.isArray(value) || value instanceof Error || typeof value.toJSON !== 'function'
  if (!isPlain) return copy(value.toJSON(), seen, budget, depth + 1)
  const out = Array.isArray(value) ? [] : Object.create(Object.getPrototypeOf(value))
  seen.set(value, out)
  for (const key of Reflect.ownKeys(value)) {
    if (Array.isArray(value) && key === 'length') continue
    const { enumerable } = Object.getOwnPropertyDescriptor(value, key)
    const name = typeof key === 'string' ? clean(key, 'winston', budget.entry) : key
    let member
    try {
      member = value[key]
    } catch (error) {
      if (enumerable) throw error
      continue // callee of arguments: no format reads it
    }
    const masked = copy(member, seen, budget, depth + 1)
    Object.defineProperty(out, name, { value: masked, enumerable, writable: true, configurable: true })
  }
  return out
}
