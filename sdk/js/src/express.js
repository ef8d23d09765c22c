export { relayMiddleware } from './node.js'
