// Finds credentials in text by their shape, as package secrets of the relay does: the same rules (rules.gen.js), the
// same spans, masks and canonical texts. A test compares both on the same lines. Functions have the names that they have
// there, and are explained there. The text is a binary string: one character for each byte.
import { rules as builtIn } from './rules.js'
import { charsets, forgetRuns, isLetter, isSeparator, setLimit, within } from './text.js'
import { maxHost, maxLabel, maxOperator, maxPassword, maxUser } from './places.js'
import { accepts, match, maxJWTHeader } from './shapes.js'
import { hidden, maskOf } from './mask.js'

const maxDepth = 6
const maxClasses = 64
const maxPending = 32

function prepare(rule, order) {
  const r = { left: 'word', right: 'word', ...rule, order }
  r.fold = r.fold || r.kind === 'uri' || r.kind === 'assign'
  const withSet = (p) => ({ ...p, set: charsets[p.charset] })
  r.set = charsets[r.charset || 'urlsafe']
  r.lead = r.lead && withSet(r.lead)
  r.then = r.then && r.then.map(withSet)
  return r
}

function patternsOf(r) {
  switch (r.kind) {
    case 'uri': return r.prefixes.flatMap((p) => [p + ':', p + '%', p + '+'])
    case 'assign': return r.prefixes.flatMap((p) => (p.includes('_') ? [p, p.replace(/_/g, '')] : [p]))
  }
  return r.prefixes
}

function reachOf(r) {
  const slack = 64
  switch (r.kind) {
    case 'jwt': return 2 * maxJWTHeader + r.max + slack
    case 'uri': return maxUser + maxPassword + maxHost + slack
    case 'pem': case 'jwk': return maxLabel + r.max + slack
  }
  let n = slack + (r.kind === 'assign' ? maxOperator : 0)
  for (const p of [{ ...r, separator: '' }, ...(r.then || [])]) {
    n += p.separator.length * 3 + p.max + (p.set.escaped ? p.max >> 1 : 0)
  }
  return n
}

const tooMany = () => new RangeError('the rules have too many prefixes')

function newAutomaton(patterns) {
  const classes = new Uint8Array(1 << 16) // of each UTF-16 unit
  let count = 0
  for (const { head } of patterns) {
    for (let i = 0; i < head.length; i++) {
      const c = head.charCodeAt(i)
      if (classes[c]) continue
      if (++count === maxClasses) throw tooMany()
      for (const same of isLetter(c) ? [c | 32, c & ~32] : isSeparator(c) ? [45, 46, 95] : [c]) classes[same] = count
    }
  }
  const nodes = [{ next: new Uint16Array(maxClasses), patterns: [] }]
  for (const p of patterns) {
    let node = 0
    for (let i = 0; i < p.head.length; i++) {
      const c = classes[p.head.charCodeAt(i)]
      node = nodes[node].next[c] ||= nodes.push({ next: new Uint16Array(maxClasses), patterns: [] }) - 1
    }
    nodes[node].patterns.push(p)
  }
  if (nodes.length > 2048) throw tooMany()
  const suffix = new Uint16Array(nodes.length)
  const queue = [...nodes[0].next].filter(Boolean)
  for (let i = 0; i < queue.length; i++) {
    const n = nodes[queue[i]]
    const shorter = nodes[suffix[queue[i]]]
    n.patterns.push(...shorter.patterns)
    for (let c = 0; c < maxClasses; c++) {
      if (n.next[c]) {
        suffix[n.next[c]] = shorter.next[c]
        queue.push(n.next[c])
      } else {
        n.next[c] = shorter.next[c]
      }
    }
  }
  const order = [...nodes.filter((n) => !n.patterns.length), ...nodes.filter((n) => n.patterns.length)]
  for (const [i, n] of order.entries()) n.number = i * maxClasses
  const accepting = order.findIndex((n) => n.patterns.length) * maxClasses
  const transitions = new Uint32Array(order.length * maxClasses)
  for (const n of order) n.next.forEach((to, c) => { transitions[n.number | c] = nodes[to].number })
  return { classes, transitions, accepting, ending: order.map((n) => n.patterns) }
}

// newScanner returns a scanner of the built-in rules, without those that are disabled, and of extra ones.
export function newScanner({ disable = [], extra = [] } = {}) {
  const rules = [...builtIn.filter((r) => !disable.includes(r.id)), ...extra].map(prepare)
  const patterns = []
  let behind = 0
  let reach = 0
  for (const rule of rules) {
    for (const text of patternsOf(rule)) {
      patterns.push({ rule, text, head: text.slice(0, maxDepth) })
      behind = Math.max(behind, maxDepth + (rule.lead ? rule.lead.max : 0))
      reach = Math.max(reach, text.length + reachOf(rule))
    }
  }
  const { classes, transitions, accepting, ending } = newAutomaton(patterns)

  // mayMatch reports whether a prefix is in a text of any characters. Most lines end here.
  function mayMatch(text) {
    for (let i = 0, state = 0; i < text.length; i++) {
      state = transitions[state | classes[text.charCodeAt(i)]]
      if (state >= accepting) return true
    }
    return false
  }

  // scan returns the matches in a binary string, in order of position: {rule, start, end}.
  function scan(text) {
    return within(text, () => {
      const found = []
      const pending = []
      forgetRuns()
      for (let i = 0, state = 0; i < text.length;) {
        state = transitions[state | classes[text.charCodeAt(i++)]]
        if (state < accepting) continue
        setLimit(Math.min(text.length, i + reach))
        for (const p of ending[state / maxClasses]) {
          if (hasLonger(pending, p.rule, i)) continue
          const m = match(p, i)
          if (m && accepts(p.rule, m)) add(pending, { rule: p.rule, start: m.start, end: m.end })
        }
        flush(pending, i - behind, found)
      }
      flush(pending, text.length, found)
      return found
    })
  }

  return { rules, mayMatch, scan, maskAll: (text) => maskAll(scan, text) }
}

function hasLonger(pending, r, end) {
  if ((r.kind !== 'token' && r.kind !== 'pem') || r.then || r.right === 'any' || r.lead) return false
  return pending.some((m) => m.rule === r && m.start < end - maxDepth && m.end > end)
}

function add(pending, m) {
  let from = 0
  while (from < pending.length && pending[from].end <= m.start) from++
  let to = from
  for (; to < pending.length && pending[to].start < m.end; to++) if (!beats(m, pending[to])) return
  if (from === to && pending.length === maxPending) return
  pending.splice(from, to - from, m)
}

function beats(m, other) {
  const length = m.end - m.start
  const otherLength = other.end - other.start
  if (Boolean(m.rule.generic) !== Boolean(other.rule.generic)) return Boolean(other.rule.generic)
  return length === otherLength ? m.rule.order < other.rule.order : length > otherLength
}

function flush(pending, end, found) {
  while (pending.length && pending[0].end <= end) found.push(pending.shift())
}

const margins = [0, 0, 0, 1 << 10, 32 << 10, Infinity]

// maskAll returns a binary string with the mask of every credential instead of its text, and what the first pass found.
function maskAll(scan, text) {
  const found = scan(text)
  let out = found.length ? replace(text, found, 0) : text
  for (let i = 1, again = found.length; i < margins.length && again; i++) {
    const more = scan(out)
    again = more.length
    if (again) out = replace(out, more, margins[i])
  }
  return { text: out, found }
}

function replace(text, found, margin) {
  let out = ''
  let from = 0
  for (const [i, m] of found.entries()) {
    if (!margin) {
      out += text.slice(from, m.start) + maskOf(m.rule, text.slice(m.start, m.end))
      from = m.end
      continue
    }
    const start = m.start - margin
    if (start > from || i === 0) out += text.slice(from, Math.max(from, start)) + hidden
    from = Math.min(text.length, m.end + margin)
  }
  return out + text.slice(from)
}
