/** A format that masks; put it last. */
export function relayFormat(): any
