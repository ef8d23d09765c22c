// The package as applications install it: ESM and CJS, both at once, and its size.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import zlib from 'node:zlib'
import { key, masked, skip } from './test/run.mjs'

const directory = mkdtempSync(path.join(tmpdir(), 'eventrelay-sdk-'))
after(() => rmSync(directory, { recursive: true }))
const installed = path.join(directory, 'node_modules/@eventrelay/sdk')
if (!skip) {
  const { buildPackage } = await import('./build.mjs')
  mkdirSync(installed, { recursive: true })
  await buildPackage(installed, '0.1.0-test')
}

function node(name, code, ...flags) {
  const file = path.join(directory, name)
  writeFileSync(file, code.replaceAll('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`))
  return execFileSync(process.execPath, [...flags, file], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

test('the package works as ESM, as CJS, preloaded, and as both in one process', { skip }, () => {
  const both = "const { default: cjs } = await import('node:module'); const load = cjs.createRequire(import.meta.url); " +
    "load('@eventrelay/sdk').init({}); import { init, mask } from '@eventrelay/sdk'; init({}); console.log('$KEY', mask('$KEY'))"
  assert.equal(node('a.mjs', "import { init } from '@eventrelay/sdk'; init({}); console.log('$KEY')"), `${masked}\n`)
  assert.equal(node('b.cjs', "require('@eventrelay/sdk').init({}); console.log('$KEY')"), `${masked}\n`)
  assert.equal(node('c.cjs', "console.log('$KEY')", '--import', '@eventrelay/sdk/register'), `${masked}\n`)
  assert.equal(node('d.cjs', "console.log('$KEY')", '--require', '@eventrelay/sdk/register'), `${masked}\n`)
  assert.equal(node('e.mjs', both), `${masked} ${masked}\n`)
  assert.equal(node('f.cjs', "const { pinoHooks } = require('@eventrelay/sdk/pino'); require('@eventrelay/sdk').init({}); " +
    "const { relayFormat } = require('@eventrelay/sdk/winston'); require('@eventrelay/sdk/express').relayMiddleware(); " +
    "require('fs').writeSync(1, pinoHooks.streamWrite('$KEY') + relayFormat().transform({ message: '$KEY' }).message)"), masked + masked)
})

test('the module for browsers has at most 16,000 bytes after gzip, and nothing of Node.js', { skip }, (t) => {
  const text = readFileSync(path.join(installed, 'dist/browser.js'))
  const size = zlib.gzipSync(text, { level: 9 }).length
  t.diagnostic(`${size} bytes`)
  assert.ok(size <= 16_000, `${size} bytes`)
  assert.ok(!/from ?"node:/.test(text))
})

test('the package has no dependencies and no scripts', { skip }, () => {
  const about = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'))
  assert.deepEqual([about.dependencies, about.scripts, about.version], [undefined, undefined, '0.1.0-test'])
})
