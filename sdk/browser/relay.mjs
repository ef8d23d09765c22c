// Starts bin/relay dev for a test: on a free port, empty, and without access to other machines.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const binary = fileURLToPath(new URL('../../bin/relay', import.meta.url))
const startsWithin = 180_000 // also on a core that others keep busy

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

// startRelay returns { url, key, link, pid, stop, restart } once the relay is ready. The link is the one that it prints
// for the first person. restart kills the process and starts another one with the same data. env are more settings.
export async function startRelay(env = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'relay-browser-'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const key = randomBytes(24).toString('hex')
  const log = createWriteStream(join(directory, 'log'))
  await once(log, 'open')
  const start = () => spawn(binary, ['dev'], {
    stdio: ['ignore', log, log],
    env: {
      PATH: process.env.PATH,
      HOME: directory,
      TMPDIR: process.env.TMPDIR ?? '',
      RELAY_LISTEN: `127.0.0.1:${port}`,
      RELAY_ADMIN_LISTEN: '127.0.0.1:0',
      RELAY_BASE_URL: url,
      RELAY_DATA_DIR: join(directory, 'data'),
      RELAY_BOOTSTRAP_KEY: key,
      RELAY_EGRESS_ALLOW: '127.0.0.0/8',
      RELAY_EGRESS_ALLOW_HTTP: 'true',
      RELAY_DNS_SERVER: '127.0.0.1:9',
      ...env,
    },
  })
  let child
  let ended
  let killed // by the test
  const launch = () => {
    killed = false
    child = start()
    ended = new Promise((resolve) => {
      child.once('exit', resolve)
      child.once('error', resolve)
    })
    child.once('exit', async (code, signal) => {
      if (killed) return
      const lines = (await readFile(join(directory, 'log'), 'utf8')).split('\n').slice(-40)
      console.error(`Error: bin/relay dev has ended by itself (${code ?? signal}):\n${lines.join('\n')}`)
    })
  }
  const stop = async () => {
    killed = true
    child.kill('SIGTERM')
    await ended
    log.end()
    await rm(directory, { recursive: true, force: true })
  }
  const ready = async () => {
    const until = Date.now() + startsWithin
    while (!(await isReady(url))) {
      const gone = child.exitCode !== null || child.pid === undefined
      if (gone || Date.now() > until) {
        const text = await readFile(join(directory, 'log'), 'utf8')
        await stop()
        throw new Error(`bin/relay dev did not become ready:\n${text}`)
      }
      await delay(100)
    }
  }
  const restart = async () => {
    killed = true
    child.kill('SIGKILL')
    await ended
    launch()
    await ready()
  }
  launch()
  await ready()
  return { url, key, link: await printedLink(join(directory, 'log')), get pid() { return child.pid }, stop, restart }
}

// storeOf returns the process id of the relay's ClickHouse.
export async function storeOf({ pid }) {
  for (const thread of await readdir(`/proc/${pid}/task`)) { // any of them can have started it
    const children = await readFile(`/proc/${pid}/task/${thread}/children`, 'utf8')
    for (const child of children.split(' ').filter(Boolean)) {
      if ((await readFile(`/proc/${child}/cmdline`, 'utf8')).includes('clickhouse')) return Number(child)
    }
  }
  throw new Error(`process ${pid} has no ClickHouse`)
}

// printedLink waits for the lines that are printed once the relay is ready.
async function printedLink(log) {
  const until = Date.now() + startsWithin
  for (;;) {
    const link = /http\S+\/app\/link\/\S+(?=\n)/.exec(await readFile(log, 'utf8'))
    if (link) return link[0]
    if (Date.now() > until) throw new Error('bin/relay dev printed no link')
    await delay(50)
  }
}

async function isReady(url) {
  try {
    return (await fetch(`${url}/readyz`)).ok
  } catch {
    return false
  }
}
