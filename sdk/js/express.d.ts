/** A middleware that checks responses; mount it after compression(). */
export function relayMiddleware(): (req: any, res: any, next: () => void) => void
