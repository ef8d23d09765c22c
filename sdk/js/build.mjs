// Builds the package of the SDK: node sdk/js/build.mjs DIRECTORY. It has the version of the product, ESM and CJS for
// Node.js, and one module for browsers. The same sources make the same bytes.
import { build } from 'esbuild'
import { copyFileSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { minify } from 'terser'

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
  for (const name of ['index.d.ts', 'README.md']) copyFileSync(path.join(here, name), path.join(directory, name))
  copyFileSync(path.join(here, '../../LICENSE'), path.join(directory, 'LICENSE'))
  const about = JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8'))
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify({ ...about, version }, null, 2) + '\n')
}

// shorten makes a module small: terser's names compress better than those of esbuild.
export async function shorten(code) {
  const compress = { passes: 3, inline: 1, booleans: false, comparisons: false, lhs_constants: false, sequences: false }
  const options = { module: true, ecma: 2020, compress, mangle: { toplevel: true, properties: { regex: internal } } }
  return (await minify(code, options)).code
}

// Properties that applications, the platform and other copies of the SDK in the same page do not know.
const internal = new RegExp('^(' + [
  'accepting', 'arrow', 'claim', 'classes', 'ending', 'escaped', 'except', 'fingerprint', 'fold', 'found', 'generic',
  'header', 'heard', 'hmac', 'lead', 'level', 'maskAll', 'maxBytes', 'mayMatch', 'nameQuoted', 'need', 'operator',
  'order', 'outage', 'padded', 'patterns', 'plus', 'quote', 'retryAfter', 'salt', 'secret', 'single', 'spaces',
  'tail', 'transitions', 'transport', 'whereOf',
].join('|') + ')$')

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const version = readFileSync(path.join(here, '../../VERSION'), 'utf8').trim()
  await buildPackage(path.resolve(process.argv[2]), version)
}
