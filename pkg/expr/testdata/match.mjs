// Writes match.json: what simple-json-match, the library of Hookdeck's filters, says of patterns and documents.
// npm install simple-json-match@1.3.0; node match.mjs >match.json
import library from 'simple-json-match'

const match = library.default ?? library

const order = { type: 'order/created', amount: 1250, rate: 10.5, paid: true, note: null, empty: '',
  customer: { country: 'NL', email: 'a@example.com', age: 5 }, tags: ['gift', 'something', 'another'], numbers: [1, 2, 3],
  items: [{ sku: 'a', n: 2, sizes: ['s', 'm'] }, { sku: 'b', n: 3, sizes: ['l'] }], none: [], deep: { a: { b: { c: 1 } } } }
const patterns = [
  {}, { type: 'order/created' }, { type: 'order/updated' }, { amount: 1250 }, { amount: 1250.0 }, { amount: 1 }, { paid: true },
  { paid: false }, { note: null }, { missing: null }, { empty: '' }, { customer: { country: 'NL' } }, { customer: { country: 'DE' } },
  { customer: { country: 'NL', age: 5 } }, { customer: { country: 'NL', age: 6 } }, { customer: 'NL' }, { type: { a: 1 } }, { tags: 'gift' },
  { tags: 'nope' }, { tags: ['gift', 'another'] }, { tags: ['gift', 'nope'] }, { numbers: 2 }, { numbers: [1, 3] }, { numbers: [4] },
  { items: { sku: 'a' } }, { items: { sku: 'a', n: 3 } }, { items: { sku: 'b', n: 3 } }, { items: [{ sku: 'a' }, { n: 3 }] },
  { items: { sizes: 'm' } }, { items: { sizes: 'x' } }, { none: 'a' }, { deep: { a: { b: { c: 1 } } } }, { deep: { a: { b: { c: 2 } } } },
  { amount: { $gt: 1000 } }, { amount: { $gt: 1250 } }, { amount: { $gte: 1250 } }, { amount: { $lt: 1250 } }, { amount: { $lte: 1250 } },
  { amount: { $gte: 100, $lt: 2000 } }, { amount: { $gte: 100, $lt: 200 } }, { rate: { $gt: 10 } }, { type: { $gt: 'a' } }, { type: { $lt: 'a' } },
  { missing: { $gt: 1 } }, { paid: { $gt: 0 } }, { note: { $gte: 0 } }, { amount: { $eq: 1250 } }, { amount: { $eq: 1 } }, { amount: { $neq: 1 } },
  { amount: { $neq: 1250 } }, { missing: { $neq: 1 } }, { missing: { $eq: null } }, { note: { $eq: null } }, { customer: { $eq: { country: 'NL', email: 'a@example.com', age: 5 } } },
  { numbers: { $eq: [1, 2, 3] } }, { numbers: { $eq: [1, 2] } }, { numbers: { $neq: [1, 2] } }, { type: { $in: ['order/created', 'x'] } }, { type: { $in: ['x'] } }, { type: { $in: 'created' } },
  { type: { $in: 'deleted' } }, { type: { $nin: ['x'] } }, { type: { $nin: ['order/created'] } }, { type: { $nin: 'deleted' } }, { amount: { $in: [1, 1250] } },
  { missing: { $in: ['x'] } }, { missing: { $nin: ['x'] } }, { tags: { $in: ['gift'] } }, { tags: { $nin: ['gift'] } },
  { type: { $startsWith: 'order' } }, { type: { $startsWith: 'x' } }, { type: { $startsWith: ['x', 'order'] } }, { amount: { $startsWith: '1' } },
  { type: { $endsWith: 'created' } }, { type: { $endsWith: ['x', 'y'] } }, { missing: { $startsWith: 'a' } }, { type: { $exist: true } }, { type: { $exist: false } },
  { note: { $exist: true } }, { missing: { $exist: true } }, { missing: { $exist: false } }, { customer: { vat: { $exist: false } } }, { customer: { age: { $exist: true } } },
  { $or: [{ type: 'x' }, { amount: 1250 }] }, { $or: [{ type: 'x' }, { amount: 1 }] }, { $and: [{ paid: true }, { amount: 1250 }] },
  { $and: [{ paid: true }, { amount: 1 }] }, { amount: { $or: [1, 1250] } }, { amount: { $or: [1, 2] } }, { amount: { $or: [{ $lt: 10 }, { $gt: 1000 }] } },
  { $not: { type: 'x' } }, { $not: { type: 'order/created' } }, { $not: { amount: { $gt: 1000 } } }, { $not: { missing: 1 } }, { customer: { $not: { country: 'NL' } } },
  { customer: { $not: { country: 'DE' } } }, { paid: true, $or: [{ amount: 1 }, { amount: 1250 }] }, { paid: false, $or: [{ amount: 1 }, { amount: 1250 }] },
  { $and: [{ $or: [{ amount: 1 }, { paid: true }] }, { $not: { note: 'x' } }] }, { customer: { $or: [{ country: 'DE' }, { age: { $gte: 5 } }] } },
  { items: { n: { $gt: 2 } } }, { items: { n: { $gt: 3 } } }, { items: { sku: { $in: ['b'] } } },
]
console.log(JSON.stringify({ document: order, cases: patterns.map((pattern) => ({ pattern, match: match(order, pattern) })) }))
