package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCodecsAreOfTheFields: a field that is added needs its codec.
func TestCodecsAreOfTheFields(t *testing.T) {
	want, err := generate("../../pkg/event")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../pkg/event/codec_generated.go"); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("pkg/event/codec_generated.go is not of the fields' tags: run go generate ./pkg/event (%v)", err)
	}
}
