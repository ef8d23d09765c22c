// Runs scenarios of the tests in a Node.js of their own: their output and what the sink was sent.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const key = 'sk_' + 'live_' + 'aB3dE5gH7jK9mN1pQ3sT5vX7' // no file has a whole one
export const masked = 'sk_' + 'live_***5vX7'

// run runs code as a module, or with cjs as a script. $KEY stands for a key, $DSN for that of the sink.
export function run(code, { sink, cjs = false, register = false, env = {}, args = [], killAfter } = {}) {
  const text = code.replaceAll('$DSN', sink?.dsn ?? '').replaceAll('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`)
  const flags = register ? ['--import', new URL('../src/register.js', import.meta.url).href] : []
  const child = spawn(process.execPath, [...flags, `--input-type=${cjs ? 'commonjs' : 'module'}`, '-e', text, ...args], {
    env: { ...process.env, RELAY_DSN: sink?.dsn ?? '', NODE_OPTIONS: '', ...env }, cwd: fileURLToPath(new URL('..', import.meta.url)),
  })
  const result = { out: '', err: '' }
  child.stdout.on('data', (data) => { result.out += data })
  child.stderr.on('data', (data) => { result.err += data })
  killAfter?.then(() => child.kill())
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (status) => resolve({ ...result, status }))
  })
}
