// Prints the built-in rules. TestScriptReadsItsRules of pkg/secrets compares them with rules.json.
import { rules } from '../src/rules.js'

process.stdout.write(JSON.stringify(rules))
