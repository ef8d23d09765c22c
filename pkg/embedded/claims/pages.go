package claims

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
)

// The format of bbolt, version 2, little-endian. A page begins with its number (8 bytes), kind (2), number of elements
// (2), and how many further pages belong to it (4). Elements of 16 bytes follow: in a branch the place of the key (4),
// its length (4) and a page (8), in a leaf flags (4), the place of key and value (4), and their lengths (4 each). A
// place counts from its element. The value of a bucket is its root page (8) and a sequence number (8), and if the page
// is 0, the root page itself.
const (
	pageHead, elementBytes     = 16, 16
	kindBranch, kindLeaf       = 1, 2
	flagBucket                 = 1
	boltMagic, boltVersion     = 0xED0CDAED, 2
	metaBytes, metaSummedBytes = 64, 56
)

// pages reads the pages of a file, and none outside it.
type pages struct {
	file *os.File
	size uint64
	end  uint64 // number of pages
	seen map[uint64]bool
}

// checkPages returns errDamaged unless the pages of the file are what bbolt expects. To open the file for writing,
// bbolt checks the same things on a goroutine of its own, where a panic ends the process.
func checkPages(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	root, p, err := readMeta(f, info.Size())
	if err != nil {
		return err
	}
	_, err = p.tree(root, keys{}, func(value []byte, flags uint32) error {
		if flags != flagBucket || len(value) < 16 {
			return fmt.Errorf("%w: an entry is no bucket", errDamaged)
		}
		claim := func(_ []byte, flags uint32) error {
			if flags != 0 {
				return fmt.Errorf("%w: a claim is a bucket", errDamaged)
			}
			return nil
		}
		if root := binary.LittleEndian.Uint64(value); root != 0 {
			_, err = p.tree(root, keys{}, claim)
		} else {
			_, err = p.leaf(value[16:], keys{}, claim)
		}
		return err
	})
	return err
}

// keys are bounds of the keys of a page: from first on, below end; nil = none.
type keys struct{ first, end []byte }

// has reports whether a key may follow last, the key before it; nil if it is the first one.
func (k keys) has(key, last []byte) bool {
	return bytes.Compare(key, k.first) >= 0 && (k.end == nil || bytes.Compare(key, k.end) < 0) &&
		(last == nil || bytes.Compare(key, last) > 0)
}

// readMeta returns the root page that the newer of both meta pages names.
func readMeta(f *os.File, size int64) (root uint64, p pages, err error) {
	p = pages{file: f, size: uint64(os.Getpagesize()), seen: make(map[uint64]bool)}
	newest, found := uint64(0), false
	for i := range uint64(2) {
		meta := make([]byte, metaBytes)
		if _, err := f.ReadAt(meta, int64(i*p.size)+pageHead); err != nil {
			return 0, p, fmt.Errorf("%w: %w", errDamaged, err)
		}
		sum := fnv.New64a()
		sum.Write(meta[:metaSummedBytes])
		number := func(at int) uint64 { return binary.LittleEndian.Uint64(meta[at:]) }
		if binary.LittleEndian.Uint32(meta) != boltMagic || binary.LittleEndian.Uint32(meta[4:]) != boltVersion ||
			number(metaSummedBytes) != sum.Sum64() {
			continue
		}
		if tx := number(48); !found || tx > newest {
			p.size = uint64(binary.LittleEndian.Uint32(meta[8:]))
			newest, found, root, p.end = tx, true, number(16), min(number(40), uint64(size)/p.size)
		}
	}
	if !found {
		return 0, p, fmt.Errorf("%w: no meta page is valid", errDamaged)
	}
	return root, p, nil
}

// read reads a page with those that belong to it.
func (p pages) read(id uint64) ([]byte, error) {
	if id >= p.end {
		return nil, fmt.Errorf("%w: page %d is behind the end", errDamaged, id)
	}
	b := make([]byte, p.size)
	if _, err := p.file.ReadAt(b, int64(id*p.size)); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	more := uint64(binary.LittleEndian.Uint32(b[12:]))
	if binary.LittleEndian.Uint64(b) != id || more >= p.end-id {
		return nil, fmt.Errorf("%w: page %d", errDamaged, id)
	}
	for n := range more + 1 {
		if p.seen[id+n] {
			return nil, fmt.Errorf("%w: page %d is in use twice", errDamaged, id+n)
		}
		p.seen[id+n] = true
	}
	if more > 0 {
		b = make([]byte, (1+more)*p.size)
		if _, err := p.file.ReadAt(b, int64(id*p.size)); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	return b, nil
}

// elements returns the elements of a page, each with all that follows it.
func elements(b []byte) (all [][]byte, err error) {
	if len(b) < pageHead || pageHead+int(binary.LittleEndian.Uint16(b[10:]))*elementBytes > len(b) {
		return nil, fmt.Errorf("%w: a page is too short", errDamaged)
	}
	for i := range int(binary.LittleEndian.Uint16(b[10:])) {
		all = append(all, b[pageHead+i*elementBytes:])
	}
	return all, nil
}

// tree checks the pages below one, calls each for all elements of leaves, and returns the last key.
func (p pages) tree(id uint64, bounds keys, each func(value []byte, flags uint32) error) (last []byte, err error) {
	b, err := p.read(id)
	if err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint16(b[8:]) == kindLeaf {
		return p.leaf(b, bounds, each)
	}
	all, err := elements(b)
	if err != nil || binary.LittleEndian.Uint16(b[8:]) != kindBranch || len(all) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%w: page %d is neither branch nor leaf", errDamaged, id))
	}
	var first [][]byte
	for _, e := range all {
		key, _, ok := keyAndValue(e, binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:]), 0)
		if !ok {
			return nil, fmt.Errorf("%w: page %d", errDamaged, id)
		}
		first = append(first, key)
	}
	for i, e := range all {
		if !bounds.has(first[i], last) {
			return nil, fmt.Errorf("%w: page %d has keys out of order", errDamaged, id)
		}
		within := keys{first[i], bounds.end}
		if i+1 < len(first) {
			within.end = first[i+1]
		}
		if last, err = p.tree(binary.LittleEndian.Uint64(e[8:]), within, each); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// leaf checks the elements of a leaf, and returns its last key.
func (p pages) leaf(b []byte, bounds keys, each func(value []byte, flags uint32) error) (last []byte, err error) {
	all, err := elements(b)
	if err != nil || binary.LittleEndian.Uint16(b[8:]) != kindLeaf {
		return nil, errors.Join(err, fmt.Errorf("%w: a page is no leaf", errDamaged))
	}
	for _, e := range all {
		number := func(at int) uint32 { return binary.LittleEndian.Uint32(e[at:]) }
		key, value, ok := keyAndValue(e, number(4), number(8), number(12))
		if !ok || !bounds.has(key, last) {
			return nil, fmt.Errorf("%w: a leaf has keys out of order", errDamaged)
		}
		if err := each(value, number(0)); err != nil {
			return nil, err
		}
		last = key
	}
	return last, nil
}

// keyAndValue returns what an element names, if it lies in its page.
func keyAndValue(e []byte, place, key, value uint32) (k, v []byte, ok bool) {
	from, to := uint64(place), uint64(place)+uint64(key)
	if to+uint64(value) > uint64(len(e)) {
		return nil, nil, false
	}
	return e[from:to], e[to : to+uint64(value)], true
}
