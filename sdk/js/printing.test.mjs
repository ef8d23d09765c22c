// A private key in what Node.js prints, on each installed version: each way of printing leaves nothing of the key, and
// all of them are reported as one key. The test prints which ways each version has.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { caught, skip } from './test/run.mjs'

const modules = new URL('../node_modules/', import.meta.url)
const installed = readdirSync(modules).filter((name) => /^node\d/.test(name) && name !== 'node18') // the SDK needs Node 20
const nodes = [process.execPath, ...installed.map((name) => new URL(`${name}/bin/node`, modules).pathname)]
const versions = new Map(nodes.map((node) => [execFileSync(node, ['--version'], { encoding: 'utf8' }).trim(), node]))

// Code that prints the key that is in pem.
const ways = {
  'a text': 'console.log(pem)',
  'a text with CRLF': "console.log({ pem: pem.replaceAll('\\n', '\\r\\n') })",
  'an object': "console.log('config', { private_key: pem })",
  'an object on stderr': "console.error('config', { private_key: pem })",
  'a nested object': 'console.log({ a: { b: [pem] } })',
  'console.dir': 'console.dir({ a: { b: { c: { d: [pem] } } } }, { depth: null })',
  'console.dir in colours': 'console.dir({ a: { b: [pem] } }, { colors: true })',
  'console.dirxml': 'console.dirxml({ pem })',
  'console.table': "console.table([{ pem, a: 1 }, { pem: 'b' }])",
  'console.group': "console.group('a'); console.group({ pem }); console.log({ a: { pem } }); console.groupEnd(); console.groupEnd()",
  'console.assert': "console.assert(false, 'a', { pem })",
  'console.trace': "console.trace('a', { pem })",
  'console.timeLog': "console.time('a'); console.timeLog('a', { pem })",
  'console.count': 'console.count(pem)',
  'a console of its own': 'new Console({ stdout: process.stdout, inspectOptions: { colors: true, depth: 9 } }).log([[[[{ pem }]]]])',
  '%s': "console.log('%s', pem); console.log('%s', { pem })",
  '%o': "console.log('a %o', { pem })",
  '%O': "console.log('a %O', { pem })",
  '%j': "console.log('a %j', { pem })",
  'compact: true': 'console.dir({ pem }, { compact: true })',
  'compact: false': 'console.dir({ a: [{ pem }] }, { compact: false })',
  'breakLength': 'console.dir([pem], { breakLength: 20 }); console.dir([pem], { breakLength: Infinity })',
  'maxStringLength': 'console.dir({ pem }, { maxStringLength: 1200 })',
  'sorted, with hidden properties': 'console.dir({ b: 1, pem }, { sorted: true, showHidden: true })',
  'a getter': 'console.dir({ get pem() { return pem } }, { getters: true })',
  'a proxy': 'console.dir(new Proxy({ pem }, {}), { showProxy: true })',
  'an array': "console.log([pem, 'a', pem])",
  'an array of lines': "console.log(pem.trimEnd().split('\\n')); console.log(JSON.stringify(pem.trimEnd().split('\\n')))",
  'a Map': "console.log(new Map([['a', pem]])); console.log(new Map([[pem, 1]]).entries())",
  'a Set': 'console.log(new Set([pem]))',
  'a name of a property': 'console.log({ [pem]: 1, [Symbol(pem)]: 2 })',
  'a boxed text': 'console.log({ a: new String(pem) })',
  'an instance of a class': 'console.log(new (class Config { pem = pem })())',
  'an object without a prototype': 'console.log(Object.assign(Object.create(null), { pem }))',
  'a property of a function': 'console.log(Object.assign(() => {}, { pem }))',
  'a promise': 'console.log(Promise.resolve(pem))',
  'URLSearchParams': 'console.log(new URLSearchParams({ pem })); console.log(String(new URLSearchParams({ pem })))',
  'an error': 'console.log(new Error(pem)); console.log({ error: new Error(pem) })',
  'a property of an error': "console.log(Object.assign(new Error('a'), { config: { pem } }))",
  'the cause of an error': "console.log(new Error('a', { cause: new Error('b', { cause: { pem } }) }))",
  'an AggregateError': "console.log(new AggregateError([Object.assign(new Error('a'), { pem })]))",
  'an AssertionError': `for (const [a, b] of [[{ pem }, { pem: 'a' }], [pem, 'a']]) {
    try { assert.deepStrictEqual(a, b) } catch (error) { console.log(error.message); console.log(error) } }`,
  'a text with quotes': `console.log([\`it's \${pem}\`, \`"it's" \${pem}\`])`,
  'an indented text': "console.log({ pem: pem.replace(/^/gm, '    ') })",
  'what was printed before': 'console.log(util.inspect({ pem })); console.log({ a: util.inspect({ pem }) })',
  'JSON': 'console.log(JSON.stringify({ pem })); console.log({ a: JSON.stringify({ pem }) }); console.log(JSON.stringify({ a: util.inspect({ pem }) }))',
  'util.debuglog': "util.debuglog('relay')('a %o', { pem })",
  'process.emitWarning': "process.emitWarning(util.inspect({ pem })); await new Promise(setImmediate)",
  'standard streams': 'process.stdout.write(util.inspect({ pem })); process.stderr.write(Buffer.from(util.inspect({ pem })))',
  'pino': "(await import('pino')).default().info({ pem, a: util.inspect({ pem }) })",
  'winston.format.prettyPrint': `const { default: winston } = await import('winston'); const { prettyPrint } = winston.format
    for (const format of [prettyPrint(), prettyPrint({ colorize: true })]) {
      winston.createLogger({ format, transports: [new winston.transports.Console()] }).info('a', { config: { pem } })
    }`,
}

const code = `
  import assert from 'node:assert'; import util from 'node:util'; import { Console } from 'node:console'
  const pem = process.env.KEY; const ways = JSON.parse(process.argv[1])
  const print = (way) => Object.getPrototypeOf(async function () {}).constructor('pem', 'assert', 'util', 'Console', way)
  for (const [name, way] of Object.entries(ways)) {
    for (const stream of [process.stdout, process.stderr]) stream.write('\\n=== ' + name + '\\n')
    await print(way)(pem, assert, util, Console)
  }`

const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' })
// Parts of the key's lines, without what the first line of all keys says.
const parts = pem.trimEnd().split('\n').slice(1, -1).flatMap((line) => line.match(/.{16}/g)).slice(3)

// sectionsOf returns what was printed by each way.
const sectionsOf = (text) => new Map(text.split('\n=== ').slice(1).map((s) => [s.slice(0, s.indexOf('\n')), s.slice(s.indexOf('\n'))]))

test('a private key, by printing way and version of Node.js', { skip }, async (t) => {
  for (const [version, node] of versions) {
    await t.test(`Node.js ${version}`, async () => {
      const { out, err, status, reports } = await caught(code, {
        node, args: [JSON.stringify(ways)], env: { KEY: pem, NODE_DEBUG: 'relay' },
      })
      assert.equal(status, 0, err)
      const [stdout, stderr] = [sectionsOf(out), sectionsOf(err)]
      const leaks = []
      for (const way in ways) {
        const text = stdout.get(way) + stderr.get(way)
        if (!text.includes('-----BEGIN ***') || parts.some((part) => text.includes(part))) leaks.push([way, text.slice(text.indexOf(parts.find((p) => text.includes(p))) - 200).slice(0, 400)])
      }
      assert.deepEqual(leaks, [])
      const keys = new Set(reports.filter((r) => r.rule === 'private-key-block').map((r) => r.fp1))
      assert.equal(keys.size, 3, 'the key, and what maxStringLength and AssertionError leave of it')
    })
  }
  for (const way in ways) t.diagnostic(`${[...versions.keys()].join(', ')}: ${way}`)
})

// Code that prints the key that is in pem in colours, which these libraries begin and end in each line.
const colours = {
  'chalk': "const { Chalk } = await import('chalk'); const c = new Chalk({ level: 3 }); console.log(c.green(pem)); console.log('a', c.bold.bgHex('#123')(pem), 'b')",
  '@colors/colors': "const { default: c } = await import('@colors/colors'); c.enable(); console.log(c.red(pem)); console.log(c.bold.underline(pem))",
  'winston, the console': `const { default: winston } = await import('winston'); const f = winston.format
    for (const options of [{ all: true }, { message: true }]) {
      winston.createLogger({ format: f.combine(f.colorize(options), f.simple()), transports: [new winston.transports.Console()] }).info('key ' + pem)
    }`,
  'winston, a stream behind relayFormat': `const { default: winston } = await import('winston'); const f = winston.format
    const { relayFormat } = await import('./src/winston.js'); const fs = await import('node:fs'); const { Writable } = await import('node:stream')
    const stream = new Writable({ write(chunk, encoding, done) { fs.writeSync(1, chunk); done() } })
    winston.createLogger({ format: f.combine(f.colorize({ all: true }), f.simple(), relayFormat()), transports: [new winston.transports.Stream({ stream })] }).info('key ' + pem)`,
}

test('a private key in colours, by library', { skip }, async () => {
  const keys = [generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'sec1', format: 'pem' })]
  for (const key of keys) {
    const { out, err, status, reports } = await caught(code, { args: [JSON.stringify(colours)], env: { KEY: key, FORCE_COLOR: '3' } })
    assert.equal(status, 0, err)
    const parts = key.trimEnd().split('\n').slice(1, -1).flatMap((line) => line.match(/.{12}/g))
    const sections = sectionsOf(out)
    for (const way in colours) {
      const text = sections.get(way)
      assert.ok(text.includes('-----BEGIN ***') && text.includes('\x1b['), way)
      assert.deepEqual(parts.filter((part) => text.includes(part)), [], way)
    }
    assert.equal(new Set(reports.map((r) => r.rule + r.fp1)).size, 1)
  }
})
