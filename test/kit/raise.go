package kit

import "cmp"

// Raise sets an atomic number to n if that is more.
func Raise[T cmp.Ordered](number interface {
	Load() T
	CompareAndSwap(before, after T) bool
}, n T) {
	for before := number.Load(); n > before && !number.CompareAndSwap(before, n); before = number.Load() {
	}
}
