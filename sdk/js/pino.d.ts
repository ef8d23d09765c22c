/** pino({ hooks: pinoHooks }) masks each line, whatever its destination. */
export const pinoHooks: { streamWrite: (line: string) => string }
