// Reads one JSON array of {secret, headers, body, valid} from standard input and verifies each with
// the official library. Prints one JSON array of the indexes where the library disagrees with `valid`.
'use strict';
const { Webhook } = require('standardwebhooks');

function verifies({ secret, headers, body }) {
  try {
    new Webhook(secret).verify(body, headers, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}

let input = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (part) => (input += part));
process.stdin.on('end', () => {
  const wrong = [];
  JSON.parse(input).forEach((c, i) => {
    if (verifies(c) !== c.valid) wrong.push(i);
  });
  process.stdout.write(JSON.stringify(wrong));
});
