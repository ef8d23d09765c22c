import { clean } from './node.js'

const streamWrite = (line) => clean(line, 'pino', streamWrite)

// pinoHooks masks each line of pino, whatever its destination: pino({ hooks: pinoHooks }).
export const pinoHooks = { streamWrite }
