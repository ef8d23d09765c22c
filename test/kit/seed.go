package kit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// defaultSeed once found a search that missed an event.
const defaultSeed = 1795741004443861922

// Seed returns the seed of a randomised test and logs it: RELAY_SEED, a new one if that is "random", or else always the
// same, so that a change does not fail by chance.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(defaultSeed)
	switch text := os.Getenv("RELAY_SEED"); text {
	case "":
	case "random":
		seed = rand.Uint64()
	default:
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RELAY_SEED is neither a number nor random: %v", err)
		}
	}
	t.Logf("RELAY_SEED=%d", seed)
	return seed
}

// Rand returns a source of random numbers with Seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 1))
}
