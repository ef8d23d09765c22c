// The package as applications install it: ESM and CJS, both at once, and its size.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { after, test } from 'node:test'
import zlib from 'node:zlib'
import { key, masked, skip } from './test/run.mjs'
import { secrets } from './test/secrets.mjs'
import { publicKey } from './test/sink.mjs'

const here = path.dirname(fileURLToPath(import.meta.url))
const directory = mkdtempSync(path.join(tmpdir(), 'eventrelay-sdk-'))
after(() => rmSync(directory, { recursive: true }))
const installed = path.join(directory, 'node_modules/@eventrelay/sdk')
if (!skip) {
  const { buildPackage } = await import('./build.mjs')
  mkdirSync(installed, { recursive: true })
  await buildPackage(installed, '0.1.0-test')
  for (const name of ['pino', 'winston']) symlinkSync(path.resolve(here, '../node_modules', name), path.join(directory, 'node_modules', name))
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

test('the command of README.md gives the SDK to child processes in other directories', { skip }, () => {
  const command = /^url=.*\n^NODE_OPTIONS=.*\n/m.exec(readFileSync(path.join(installed, 'README.md'), 'utf8'))[0]
  assert.doesNotMatch(command, /import\.meta/) // its resolve is not in all versions of Node.js 20
  const code = "console.log(require('node:http').maxHeaderSize, '$KEY')".replace('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`)
  writeFileSync(path.join(directory, 'app.js'), `const { spawnSync } = require('node:child_process')
    const { stdout, stderr } = spawnSync(process.execPath, ['-e', ${JSON.stringify(code)}], { cwd: '/', encoding: 'utf8' })
    console.log(stdout + stderr.replace(/^eventrelay: no DSN.*\\n/, ''))`)
  const out = execFileSync('sh', ['-c', command], {
    cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, NODE_OPTIONS: '--max-http-header-size=12345', PATH: `${path.dirname(process.execPath)}:${process.env.PATH}` },
  })
  assert.equal(out.trim(), `12345 ${masked}`)
})

test('the module for browsers has at most 17 KiB after gzip, and nothing of Node.js', { skip }, (t) => {
  const text = readFileSync(path.join(installed, 'dist/browser.js'))
  const size = zlib.gzipSync(text, { level: 9 }).length
  t.diagnostic(`${size} bytes`)
  assert.ok(size <= 17 << 10, `${size} bytes`)
  assert.ok(!/from ?"node:/.test(text))
})

test('the module for browsers finds what the sources find, of each rule', { skip }, async () => {
  const { scan } = await import(path.join(installed, 'dist/browser.js'))
  for (const { rule, text, masked } of secrets()) {
    if (rule.startsWith('custom:')) continue
    const found = scan(`x ${text} y`).map((m) => [m.rule, m.masked])
    assert.deepEqual(found, [[rule, masked]])
  }
})

test('README.md of the package links only what the package has', { skip }, () => {
  const links = [...readFileSync(path.join(installed, 'README.md'), 'utf8').matchAll(/\]\(([^)#][^)]*)\)/g)].map((m) => m[1])
  const dead = links.filter((link) => !link.startsWith('https:') && !existsSync(path.join(installed, link)))
  assert.deepEqual(dead, [])
})

test('the package has no dependencies and no scripts', { skip }, () => {
  const about = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'))
  assert.deepEqual([about.dependencies, about.scripts, about.version], [undefined, undefined, '0.1.0-test'])
})

test('each subpath has types for ESM and for CommonJS, which export what it exports', { skip }, () => {
  const { exports } = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'))
  const read = (file) => readFileSync(path.join(installed, file), 'utf8')
  for (const [name, conditions] of Object.entries(exports)) {
    if (typeof conditions === 'string') continue
    const { require: cjs, default: esm } = conditions
    const beside = `${name === '.' ? './index' : name}.d.ts` // where TypeScript looks that does not read exports
    assert.deepEqual([esm.types, cjs.types], [beside, beside.replace('.ts', '.cts')])
    assert.equal(read(cjs.types), read(esm.types))
    const declared = [...read(esm.types).matchAll(/^export (?:function|const) (\w+)/gm)].map((m) => m[1]).sort()
    const list = `console.log(Object.keys(await import('@eventrelay/sdk${name.slice(1)}')).sort().join())`
    assert.equal(node('types.mjs', list).trim(), declared.join())
  }
})

test('TypeScript compiles an application in CommonJS, with old module resolution, and with exactOptionalPropertyTypes', { skip }, async () => {
  const { default: ts } = await import('typescript')
  const code = `
    import { init, flush, type Options } from '@eventrelay/sdk'
    import { pinoHooks } from '@eventrelay/sdk/pino'
    import { relayFormat } from '@eventrelay/sdk/winston'
    import { relayMiddleware } from '@eventrelay/sdk/express'
    import '@eventrelay/sdk/register'
    // @ts-expect-error
    import { pinoHooks as none } from '@eventrelay/sdk'
    declare const dsn: string | undefined
    const options: Options = { dsn, beforeSend: (report) => (report.fp1 ? report : null), rules: { disable: undefined } }
    init(options)
    // @ts-expect-error
    init({ dns: dsn })
    export const sent: Promise<boolean> = flush(1)
    export const all: unknown[] = [pinoHooks.streamWrite(''), relayFormat(), relayMiddleware(), none]`
  for (const [ending, module, moduleResolution] of [
    ['ts', 'CommonJS', 'Node10'], ['cts', 'Node16', 'Node16'], ['mts', 'Node16', 'Node16'], ['ts', 'ESNext', 'Bundler'],
  ]) {
    const file = path.join(directory, `application.${ending}`)
    writeFileSync(file, code)
    const program = ts.createProgram([file], { module: ts.ModuleKind[module], moduleResolution: ts.ModuleResolutionKind[moduleResolution],
      target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts'], skipDefaultLibCheck: true, strict: true,
      exactOptionalPropertyTypes: true, noEmit: true, types: [] })
    const faults = ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, ' '))
    assert.deepEqual(faults, [], `${ending} ${module} ${moduleResolution}`)
  }
})

// An application that prints where it has logged a key. plain uses nothing of Node.js.
const application = {
  plain: `
    import { init, flush } from '@eventrelay/sdk'
    const places = []
    init({ dsn: 'http://${publicKey}@127.0.0.1:9/dsn_a1', beforeSend: ({ where }) => { places.push(where); return null } })
    const key = '$KEY'
    function logIt() { console.log('charging with ' + key) }
    logIt()`,
  loggers: `
    import pino from 'pino'
    import winston from 'winston'
    import { pinoHooks } from '@eventrelay/sdk/pino'
    import { relayFormat } from '@eventrelay/sdk/winston'
    const [log, hooked] = [pino(), pino({ hooks: pinoHooks }, pino.destination({ dest: 2, sync: true }))]
    const transports = [new winston.transports.Console()]
    const [printed, formatted] = [winston.createLogger({ transports }),
      winston.createLogger({ transports, format: winston.format.combine(winston.format.json(), relayFormat()) })]
    process.on('unhandledRejection', () => {})
    class Billing {
      charge() {
        process.stdout.write(key + '\\n')
        log.info(key)
        hooked.child({ a: 1 }).warn({ key }, 'b')
        printed.error(key)
        formatted.info(key)
        Promise.reject(new Error(key))
      }
    }
    new Billing().charge()`,
  end: `
    setTimeout(() => flush().then(() => console.log(JSON.stringify(places))), 100)`,
}

// placesOf runs a file of the application and returns what is logged at the places: 'log(' for console.log(key).
function placesOf(name, ...flags) {
  const out = execFileSync(process.execPath, [...flags, name], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const lines = readFileSync(path.join(directory, name), 'utf8').split('\n')
  const places = JSON.parse(out.trimEnd().split('\n').pop())
  for (const { file } of places) assert.equal(path.basename(file ?? 'no file'), name)
  return { places, calls: places.map(({ line, column }) => /^[\w ]+/.exec(lines[line - 1].slice(column - 1))[0]) }
}

const { plain, loggers, end } = application
const calls = ['log', 'write', 'info', 'warn', 'error', 'info', 'new Error']
for (const minify of [false, true]) {
  test(`bundled with the application${minify ? ' and minified' : ''} the place is that of the call`, { skip }, async () => {
    const { build } = await import('esbuild')
    const bundle = (code, outfile, options) => {
      const contents = code.replaceAll('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`)
      return build({ stdin: { contents, resolveDir: directory }, bundle: true, minify, logLevel: 'error', absWorkingDir: directory, outfile, ...options })
    }
    await bundle(plain + loggers + end, 'node.cjs', { platform: 'node', format: 'cjs' })
    await bundle(plain + end, 'node.mjs', { platform: 'node', format: 'esm' })
    await bundle(plain + end, 'page.mjs', { platform: 'browser', format: 'esm' })
    for (const [name, expected] of [['node.cjs', calls], ['node.mjs', ['log']], ['page.mjs', ['log']]]) {
      const { places, calls } = placesOf(name)
      assert.deepEqual(calls, expected, JSON.stringify(places))
      if (!minify) assert.deepEqual(places.map((p) => p.function), expected.map((_, i) => (i ? 'Billing.charge' : 'logIt')))
    }
  })
}

test('beside the application the place is that of the call, also with a copy of the module', { skip }, () => {
  const write = (name, code) => writeFileSync(path.join(directory, name), code.replaceAll('$KEY', `${key.slice(0, 8)}' + '${key.slice(8)}`))
  write('beside.mjs', plain + loggers + end)
  write('copy.mjs', readFileSync(path.join(installed, 'dist/browser.js'), 'utf8'))
  write('page-beside.mjs', (plain + end).replace('@eventrelay/sdk', './copy.mjs'))
  assert.deepEqual(placesOf('beside.mjs').calls, calls)
  assert.deepEqual(placesOf('page-beside.mjs').calls, ['log'])
})
