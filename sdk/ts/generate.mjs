// Writes src/api.gen.ts and src/keyed.gen.ts from an OpenAPI document: node generate.mjs openapi.json
import { readFileSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'

const document = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const header = '// Code generated from the OpenAPI document by generate.mjs. DO NOT EDIT.\n\n'

writeFileSync('src/api.gen.ts', header + astToString(await openapiTS(document)))

const key = '#/components/parameters/IdempotencyKey'
const takesKey = (operation) => operation.parameters?.some(({ $ref }) => $ref === key)
const keyed = Object.entries(document.paths).flatMap(([path, operations]) => Object.entries(operations)
  .filter(([, operation]) => takesKey(operation)).map(([method]) => `  "${method.toUpperCase()} ${path}",\n`))
writeFileSync('src/keyed.gen.ts', `${header}/** The operations that take an Idempotency-Key. */
export const keyed: ReadonlySet<string> = new Set([\n${keyed.join('')}]);\n`)
