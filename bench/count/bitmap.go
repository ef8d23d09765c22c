package count

import "sync/atomic"

// Bitmap remembers which numbers below MaxNumber were seen: one bit each, in chunks that are made when a
// number of theirs comes, so a run of a million events takes 128 KiB. The zero value is empty; its
// methods may be called at the same time.
type Bitmap struct {
	chunks [MaxNumber / chunkBits]atomic.Pointer[chunk]
	count  atomic.Int64
}

const chunkBits = 1 << 20

type chunk [chunkBits / 64]atomic.Uint64

// Set remembers n and reports whether it is new. A number out of range is not new and not remembered.
func (b *Bitmap) Set(n int64) bool {
	if n < 0 || n >= MaxNumber {
		return false
	}
	at := &b.chunks[n/chunkBits]
	c := at.Load()
	if c == nil {
		at.CompareAndSwap(nil, new(chunk))
		c = at.Load()
	}
	bit := uint64(1) << (n % 64)
	if c[n%chunkBits/64].Or(bit)&bit != 0 {
		return false
	}
	b.count.Add(1)
	return true
}

// Has reports whether n was seen.
func (b *Bitmap) Has(n int64) bool {
	if n < 0 || n >= MaxNumber {
		return false
	}
	c := b.chunks[n/chunkBits].Load()
	return c != nil && c[n%chunkBits/64].Load()&(1<<(n%64)) != 0
}

// Count is how many different numbers were seen.
func (b *Bitmap) Count() int64 { return b.count.Load() }
