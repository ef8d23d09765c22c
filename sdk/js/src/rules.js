// The built-in rules: rules.gen.js has each as a line of text, which is shorter.
import { charsets, lines } from './rules.gen.js'

const sets = Object.keys(charsets)

function part(text) {
  const [, separator, set, min, max] = /^(.*?)([a-z])(\d+)-?(\d*)$/.exec(text)
  return { ...(separator && { separator }), charset: sets[set.charCodeAt(0) - 97], min: +min, max: +(max || min) }
}

function expand(text) {
  const group = /^(.*?)\[(.*?)](.*)$/.exec(text)
  return group ? [...group[2]].flatMap((c) => expand(group[1] + c + group[3])) : text
}

export const rules = lines.split('\n').map((line) => {
  const [id, prefixes, parts, entropy = 0, other = '{}'] = line.split(' ')
  const [first, ...then] = parts.split(',').map(part)
  const rule = { id, kind: 'token', prefixes: prefixes.split(',').flatMap(expand), ...first, entropy: +entropy, ...JSON.parse(other) }
  if (then.length) rule.then = then
  rule.fingerprint = !/uri|assign/.test(rule.kind)
  return rule
})
