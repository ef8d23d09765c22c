// Prints what the engine finds in each line of the standard input, a JSON string with one character for each byte:
// "rule start end mask canonical;" for each match, and the masked text. TestScriptFindsWhatScanFinds of pkg/secrets
// compares it with the relay's own engine.
import { readFileSync } from 'node:fs'
import { newScanner } from '../src/engine.js'
import { canonical, maskOf } from '../src/mask.js'

const scanner = newScanner()
const hex = (text) => Buffer.from(text, 'latin1').toString('hex')
const out = []
for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (line === '') continue
  const text = JSON.parse(line)
  const found = scanner.mayMatch(text) ? scanner.scan(text) : []
  let answer = ''
  for (const { rule, start, end } of found) {
    const secret = text.slice(start, end)
    answer += `${rule.id} ${start} ${end} ${maskOf(rule, secret)} ${hex(canonical(rule, secret))};`
  }
  if (found.length) answer += hex(scanner.maskAll(text).text)
  out.push(answer)
}
process.stdout.write(out.join('\n') + '\n')
