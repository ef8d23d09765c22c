// Builds the package of the SDK: node sdk/js/build.mjs DIRECTORY. It has the version of the product, ESM and CJS for
// Node.js, and one module for browsers. The same sources make the same bytes.
import { build } from 'esbuild'
import { copyFileSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { minify } from 'terser'
import { lines } from './src/rules.gen.js'

const here = path.dirname(fileURLToPath(import.meta.url))
const entries = ['index', 'register', 'pino', 'winston', 'express']

export async function buildPackage(directory, version) {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  const common = {
    bundle: true, charset: 'utf8', legalComments: 'none', logLevel: 'error', absWorkingDir: here,
    define: { RELAY_SDK_VERSION: JSON.stringify(version) }, outdir: path.join(directory, 'dist'),
  }
  const nodes = entries.map((name) => `src/${name}.js`)
  await build({
    ...common, entryPoints: nodes, format: 'esm', platform: 'node', target: 'node20', splitting: true,
    chunkNames: 'shared-[hash]',
  })
  // Each CJS file but the first takes what it needs from node.cjs.
  await build({
    ...common, entryPoints: nodes, format: 'cjs', platform: 'node', target: 'node20', outExtension: { '.js': '.cjs' },
    external: ['./node.js'],
  })
  await build({
    ...common, entryPoints: ['src/node.js'], format: 'cjs', platform: 'node', target: 'node20',
    outExtension: { '.js': '.cjs' },
  })
  for (const name of entries) {
    const file = path.join(directory, 'dist', `${name}.cjs`)
    writeFileSync(file, readFileSync(file, 'utf8').replace('require("./node.js")', 'require("./node.cjs")'))
  }
  await build({
    ...common, entryPoints: ['src/browser.js'], format: 'esm', platform: 'browser', target: 'es2022', minifySyntax: true,
  })
  const browser = path.join(directory, 'dist/browser.js')
  writeFileSync(browser, await shorten(readFileSync(browser, 'utf8')))
  copyFileSync(path.join(here, 'README.md'), path.join(directory, 'README.md'))
  // TypeScript takes a .d.ts of an ESM package for ESM, which CommonJS cannot require. Beside package.json it is found by
  // TypeScript that does not read "exports" too.
  for (const name of entries) {
    for (const ending of ['ts', 'cts']) {
      copyFileSync(path.join(here, `${name}.d.ts`), path.join(directory, `${name}.d.${ending}`))
    }
  }
  copyFileSync(path.join(here, '../../LICENSE'), path.join(directory, 'LICENSE'))
  const about = JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8'))
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify({ ...about, version }, null, 2) + '\n')
}

// shorten makes a module small: terser's names compress better than those of esbuild.
export async function shorten(code) {
  const known = [...lines.matchAll(/"(\w+)":/g)].map((m) => m[1]).filter((name) => internal.test(name))
  if (known.length) throw new Error(`members of rules cannot have other names in the module for browsers: ${known}`)
  const compress = { passes: 3, inline: 1, booleans: false, comparisons: false, lhs_constants: false, sequences: false }
  const mangle = { toplevel: true, properties: { regex: internal, builtins: true } } // also names that the platform has too
  const options = { module: true, ecma: 2020, compress, mangle }
  return (await minify(code, options)).code
}

// Properties that applications, the platform, the JSON in rules.gen.js and other copies of the SDK in the same page do not
// know.
const internal = new RegExp('^(' + [
  'accepted', 'accepting', 'arrow', 'classes', 'ending', 'escaped', 'fingerprint', 'fold', 'found', 'head', 'header',
  'heard', 'hmac', 'level', 'maskAll', 'maxBytes', 'mayMatch', 'nameQuoted', 'number', 'object', 'operator', 'order', 'outage', 'padded', 'patterns', 'plus',
  'quote', 'retryAfter', 'right', 'salt', 'secret', 'separator', 'single', 'spaces', 'tail', 'transitions', 'transport',
  'whereOf',
].join('|') + ')$')

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const version = readFileSync(path.join(here, '../../VERSION'), 'utf8').trim()
  await buildPackage(path.resolve(process.argv[2]), version)
}
