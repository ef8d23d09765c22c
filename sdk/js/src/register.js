// node --import @eventrelay/sdk/register app.js
import { init } from './node.js'

const { RELAY_DSN, RELAY_ENVIRONMENT, RELAY_RELEASE, NODE_ENV } = process.env
init({ dsn: RELAY_DSN || undefined, environment: RELAY_ENVIRONMENT || NODE_ENV || undefined, release: RELAY_RELEASE || undefined })
