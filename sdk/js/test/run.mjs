// Runs scenarios of the tests in a Node.js of their own: their output and what the sink was sent.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { newSink } from './sink.mjs'

export const key = 'sk_' + 'live_' + 'aB3dE5gH7jK9mN1pQ3sT5vX7' // no file has a whole one
export const masked = 'sk_' + 'live_***5vX7'

export const skip = parseInt(process.versions.node) < 20 ? 'the SDK needs Node 20'
  : process.execPath.includes('node_modules') && !process.env.RELAY_TORTURE && 'a part of the long form'

// reported(n) in code starts the SDK and resolves when it sends the report of this number.
export const reported = `
  import { init, flush } from './src/index.js'
  const reported = (n) => new Promise((resolve) => {
    init({ dsn: '$DSN', beforeSend: (report) => { if (--n === 0) setImmediate(resolve); return report } })
  })
  const get = (server, path, ...rest) => fetch('http://127.0.0.1:' + server.address().port + path, ...rest).then((r) => r.text())
`

// caught runs code with a sink and returns its output and reports. answers are those of the sink.
export async function caught(code, options = {}) {
  const sink = await newSink(options.answers)
  const result = await run(code, { register: true, ...options, sink })
  sink.stop()
  return { ...result, reports: sink.reports(), batches: sink.batches, bodies: sink.bodies.join('\n'), requests: sink.requests }
}

// run runs code as a module, or with cjs as a script. $KEY stands for a key, $DSN for that of the sink.
export function run(code, options = {}) {
  const child = start(code, options)
  child.stdin.end()
  options.killAfter?.then(() => child.kill())
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (status) => resolve({ ...child.result, status }))
  })
}

// runTests runs node --test with the SDK on a file with this code, and returns its output and status.
export async function runTests(code) {
  const directory = mkdtempSync(path.join(tmpdir(), 'eventrelay-sdk-'))
  const file = path.join(directory, 't.cjs')
  writeFileSync(file, code.replaceAll('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`))
  const { NODE_TEST_CONTEXT, ...env } = process.env // with it node --test would run nothing
  const preload = `--import=${new URL('../src/register.js', import.meta.url).href}`
  const child = spawn(process.execPath, ['--test', file], { env: { ...env, NODE_OPTIONS: preload, RELAY_DSN: '' }, timeout: 60_000 })
  let out = ''
  child.stdout.on('data', (data) => { out += data })
  const [status] = await once(child, 'close')
  rmSync(directory, { recursive: true })
  return { out, status }
}

// start starts code as run does. The child has its output so far as result, and until(text) waits for a text in it.
export function start(code, { sink, node = process.execPath, cjs = false, register = false, env = {}, args = [] } = {}) {
  const text = code.replaceAll('$DSN', sink?.dsn ?? '').replaceAll('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`)
  const flags = register ? ['--import', new URL('../src/register.js', import.meta.url).href] : []
  const child = spawn(node, [...flags, `--input-type=${cjs ? 'commonjs' : 'module'}`, '-e', text, ...args], {
    env: { ...process.env, RELAY_DSN: sink?.dsn ?? '', NODE_OPTIONS: '', ...env }, cwd: fileURLToPath(new URL('..', import.meta.url)),
  })
  child.result = { out: '', err: '' }
  child.stdout.on('data', (data) => { child.result.out += data })
  child.stderr.on('data', (data) => { child.result.err += data })
  child.until = async (part) => {
    while (!child.result.out.includes(part)) {
      await Promise.race([once(child.stdout, 'data'), once(child, 'close').then(() => { throw new Error(`it ends without ${part}: ${child.result.err}`) })])
    }
  }
  return child
}
