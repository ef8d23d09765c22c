// What masking costs a line: node sdk/js/bench.mjs. It is compared with scan alone on the same line, in
// the same run, and fails above 1.5 times that. Beside it: what writing a line costs, to a file and to a pipe; what a line
// with a key costs; and what checking responses costs, which happens after they are sent.
import { spawnSync } from 'node:child_process'
import { closeSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const lines = {
  text: 'GET /v1/orders/8231?limit=20 200 12ms user=4711 trace=4bf92f3577b34da6\n',
  json: '{"level":30,"time":1790000000000,"pid":77,"hostname":"web-1","req":{"method":"POST","url":"/v1/charges","headers":' +
    '{"host":"api.internal","user-agent":"curl/8.5.0","content-type":"application/json"}},"responseTime":12,"msg":"request completed"}\n',
}
const writes = 200_000
const rounds = 9

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1]

// time returns what a call of f costs, in microseconds.
function time(f, n) {
  const from = process.hrtime.bigint()
  for (let i = 0; i < n; i++) f()
  return Number(process.hrtime.bigint() - from) / 1000 / n
}

if (process.argv[2] === 'write') {
  const line = lines[process.argv[3]]
  process.send?.(0)
  const cost = time(() => process.stdout.write(line), writes / 10)
  process.stderr.write(String(cost))
} else {
  const { checkResponse, close, init, scan } = await import('./src/index.js')
  const plain = process.stdout.write
  const stream = Object.create(null)
  const { warn } = console
  let failed = false
  for (const [name, line] of Object.entries(lines)) {
    const costs = { write: [], masked: [], scan: [] }
    for (let round = 0; round < rounds; round++) {
      stream.n = 0
      process.stdout.write = () => { stream.n++; return true }
      costs.write.push(time(() => process.stdout.write(line), writes))
      console.warn = () => {}
      init({ dsn: undefined, enabled: true })
      costs.masked.push(time(() => process.stdout.write(line), writes))
      costs.scan.push(time(() => scan(line), writes))
      await close()
      process.stdout.write = plain
      console.warn = warn
    }
    const [write, masked, alone] = ['write', 'masked', 'scan'].map((key) => median(costs[key]))
    const ratio = (masked - write) / alone
    failed ||= ratio > 1.5
    const real = (stdout) => spawnSync(process.execPath, [fileURLToPath(import.meta.url), 'write', name], { stdio: ['ignore', stdout, 'pipe'], maxBuffer: 1 << 30, encoding: 'utf8' }).stderr
    const file = path.join(tmpdir(), `eventrelay-bench-${process.pid}`)
    const out = openSync(file, 'w')
    const toFile = Number(real(out))
    closeSync(out)
    rmSync(file)
    const toPipe = Number(real('pipe'))
    console.log(`${name}, ${line.length} bytes: masking adds ${(masked - write).toFixed(2)} µs, ${ratio.toFixed(2)} times scan alone ` +
      `(${alone.toFixed(2)} µs); a write without it takes ${toFile.toFixed(2)} µs to a file, ${toPipe.toFixed(2)} µs to a pipe`)
  }
  const key = 'sk_' + 'live_' + 'aB3dE5gH7jK9mN1pQ3sT5vX7'
  const line = lines.text.replace('user=4711', `key=${key}`)
  const json = JSON.stringify(Array.from({ length: 400 }, (_, i) => ({ id: `ord_${i}`, state: 'paid', amount: 4200 + i })))
  const dsn = 'http://pk' + '1'.repeat(44) + '@127.0.0.1:9/dsn_a1'
  const cost = (f, n) => median(Array.from({ length: rounds }, () => time(f, n)))
  process.stdout.write = () => true
  init({ dsn, beforeSend: () => null }) // nothing is sent
  const withKey = cost(() => process.stdout.write(line), 2000)
  const response = cost(() => checkResponse(json), 500)
  process.stdout.write = plain
  await close()
  console.log(`a line with a key, ${line.length} bytes: ${withKey.toFixed(0)} µs; a response of ${(json.length / 1024).toFixed(0)} KiB: ` +
    `${response.toFixed(0)} µs`)
  process.exitCode = failed ? 1 : 0
}
