package config

import "encoding/binary"

// partitionOf returns the partition of a key among n, like Kafka's default partitioner (murmur2). It is computed once,
// when an endpoint is created, and stored, so n may grow.
func partitionOf(key string, n int32) int32 {
	return int32(murmur2([]byte(key))&0x7fffffff) % n
}

// murmur2 is MurmurHash2 (Austin Appleby, public domain) with the seed that Kafka uses.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
