package fill

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Sizes of bodies, in bytes: most are small, a few are large. The logarithm of a size is normally distributed; with
// these figures the mean is 1.3 KB.
const (
	leastBody, mostBody = 200, 64<<10 - 256
	medianBody          = 740
	spreadBody          = 1.06
)

// sizes are drawn from beforehand: an exponential for each event would cost as much as its body.
const drawnSizes = 1 << 14

func drawSizes(rnd *rand.Rand) []int {
	sizes := make([]int, drawnSizes)
	for i := range sizes {
		n := medianBody * math.Exp(spreadBody*rnd.NormFloat64())
		sizes[i] = int(min(max(n, leastBody), mostBody))
	}
	return sizes
}

// words stand in texts; their number makes bodies compress about as well as real ones.
var words = []string{
	"active", "address", "amount", "annual", "april", "balance", "basic", "blue", "card", "carrier", "city", "cotton",
	"customer", "daily", "delivery", "discount", "express", "first", "gift", "green", "house", "invoice", "item",
	"january", "large", "light", "market", "medium", "member", "monthly", "north", "note", "office", "open", "order",
	"paper", "partial", "parcel", "premium", "price", "primary", "quarter", "queue", "red", "refund", "region",
	"renewal", "review", "second", "service", "shipping", "silver", "small", "south", "standard", "station", "stock",
	"street", "summer", "total", "trial", "update", "user", "warehouse", "weekly", "west", "white", "winter", "yellow",
	"zone",
}

// shape is one kind of body: its beginning, and the form of its list entries.
type shape struct {
	head  string // between the type and some words
	tail  string // between these words and the list that fills the body
	entry func(b []byte, rnd *rand.Rand) []byte
}

func shapes() []shape {
	return []shape{
		{`,"object":"order","currency":"EUR","livemode":true,"customer":{"name":"`, `","verified":true},"lines":[`,
			orderLine},
		{`,"object":"invoice","collection_method":"charge_automatically","status":"open","account_name":"`, `","items":[`,
			invoiceItem},
		{`,"action":"synchronize","repository":{"private":false,"default_branch":"main","full_name":"`,
			`"},"commits":[`, commit},
		{`,"kind":"metric","source":"sensor","unit":"celsius","site":"`, `","samples":[`, sample},
	}
}

func orderLine(b []byte, rnd *rand.Rand) []byte {
	b = append(b, `{"sku":"`...)
	b = appendCode(b, rnd.Uint64(), 8)
	b = append(b, `","title":"`...)
	b = appendWords(b, rnd.Uint64(), 3)
	b = append(b, `","quantity":`...)
	b = strconv.AppendUint(b, 1+rnd.Uint64()%9, 10)
	b = append(b, `,"unit_price":`...)
	b = strconv.AppendUint(b, 100+rnd.Uint64()%90_000, 10)
	return append(b, `,"taxable":true}`...)
}

func invoiceItem(b []byte, rnd *rand.Rand) []byte {
	b = append(b, `{"id":"ii_`...)
	b = appendCode(b, rnd.Uint64(), 12)
	b = append(b, `","description":"`...)
	b = appendWords(b, rnd.Uint64(), 6)
	b = append(b, `","amount":`...)
	b = strconv.AppendUint(b, rnd.Uint64()%1_000_000, 10)
	return append(b, `,"proration":false,"period":{"start":1760000000,"end":1762592000}}`...)
}

func commit(b []byte, rnd *rand.Rand) []byte {
	b = append(b, `{"sha":"`...)
	for range 3 {
		b = appendCode(b, rnd.Uint64(), 12)
	}
	b = append(b, `","message":"`...)
	b = appendWords(b, rnd.Uint64(), 8)
	return append(b, `","distinct":true,"author":{"login":"builder"}}`...)
}

func sample(b []byte, rnd *rand.Rand) []byte {
	b = append(b, `{"t":1760`...)
	b = strconv.AppendUint(b, 100_000+rnd.Uint64()%900_000, 10)
	b = append(b, `,"v":`...)
	b = strconv.AppendUint(b, 10+rnd.Uint64()%20, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, 10+rnd.Uint64()%90, 10)
	return append(b, `,"ok":true}`...)
}

// appendBody appends a JSON object of at least size bytes, and not many more.
func (s *shape) appendBody(b []byte, rnd *rand.Rand, kind string, n, size int) []byte {
	end := len(b) + size
	b = append(b, `{"id":"`...)
	b = appendCode(b, rnd.Uint64(), 12)
	b = append(b, `","number":`...)
	b = appendNumber(b, n)
	b = append(b, `,"type":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	b = append(b, s.head...)
	b = appendWords(b, rnd.Uint64(), 2)
	b = append(b, s.tail...)
	for first := true; first || len(b) < end-2; first = false {
		if !first {
			b = append(b, ',')
		}
		b = s.entry(b, rnd)
	}
	return append(b, "]}"...)
}

// appendCode appends n pseudo-random characters from x, at most 12.
func appendCode(b []byte, x uint64, n int) []byte {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	for range n {
		b = append(b, alphabet[x&31])
		x >>= 5
	}
	return b
}

// appendWords appends n words chosen by x, at most 8.
func appendWords(b []byte, x uint64, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, words[x&0xff%uint64(len(words))]...)
		x >>= 8
	}
	return b
}

// Text returns n bytes of bodies, one after the other, that can stand in a JSON string: they have apostrophes for
// quotes. It is the same each time.
func Text(n int) string {
	rnd := rand.New(rand.NewPCG(1, 1))
	kinds, sizes := shapes(), drawSizes(rnd)
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = kinds[i%len(kinds)].appendBody(b, rnd, "order.created", i, sizes[i%len(sizes)])
	}
	return strings.ReplaceAll(string(b[:n]), `"`, `'`)
}
