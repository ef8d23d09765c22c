import { clean } from './node.js'

// pinoHooks masks each line of pino, whatever its destination: pino({ hooks: pinoHooks }).
export const pinoHooks = { streamWrite: (line) => clean(line, 'pino') }
