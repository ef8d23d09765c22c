export { checkResponse, close, flush, init, mask, scan, sendTest } from './node.js'
