// Copies target.mjs into each tool between two marks: node sdk/shared/generate.mjs. With --check it changes nothing and
// ends with 1 if a copy differs.
import { readFileSync, writeFileSync } from 'node:fs'

const read = (name) => readFileSync(new URL(name, import.meta.url), 'utf8')
const begin = '// ---- begin of sdk/shared/target.mjs; change it there and run sdk/shared/generate.mjs ----\n'
const end = '// ---- end of sdk/shared/target.mjs ----\n'
const shared = read('target.mjs')

for (const name of ['../forward/relay-forward.mjs', '../fixture-run/relay-fixture-run.mjs']) {
  const text = read(name)
  const from = text.indexOf(begin)
  const to = text.indexOf(end)
  if (from < 0 || to < from) throw new Error(`${name} has no marks for target.mjs`)
  const wanted = text.slice(0, from) + begin + shared + text.slice(to)
  if (wanted === text) continue
  if (process.argv[2] === '--check') {
    console.error(`${name} has an old copy of target.mjs: run node sdk/shared/generate.mjs`)
    process.exitCode = 1
  } else {
    writeFileSync(new URL(name, import.meta.url), wanted)
  }
}
