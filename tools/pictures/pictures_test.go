package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
)

const (
	directory    = "../../docs/pictures"
	measurements = "../../tools/bench/delivery.md"
	maxBytes     = 20 << 10
)

// The diagrams and plots in docs/pictures are what the generator draws, and no others are there.
func TestPicturesAreGenerated(t *testing.T) {
	files, err := pictures(measurements)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the generator draws: run make generate (%v)", name, err)
		}
		if len(want) > maxBytes {
			t.Errorf("%s has %d bytes, at most %d", name, len(want), maxBytes)
		}
		for d := xml.NewDecoder(strings.NewReader(want)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	found, err := filepath.Glob(directory + "/*.svg")
	found = slices.DeleteFunc(found, func(file string) bool { // those of make screenshots
		return strings.HasPrefix(filepath.Base(file), "sample-")
	})
	if err != nil || len(found) != len(files) {
		t.Errorf("%d SVG files in %s, want %d (%v)", len(found), directory, len(files), err)
	}
}

// The diagrams have each state of a delivery and of a recovery job.
func TestDiagramsHaveEveryState(t *testing.T) {
	delivery := drawDelivery().svg("")
	for _, s := range []event.Status{
		event.Pending, event.Retrying, event.Held, event.Delivered, event.Failed, event.Skipped,
	} {
		if !strings.Contains(delivery, ">"+string(s)+"<") {
			t.Errorf("the states of a delivery have no %s", s)
		}
	}
	recovery := drawRecovery().svg("")
	for _, s := range jobs.RecoveryStates() {
		if !strings.Contains(recovery, ">"+string(s)+"<") {
			t.Errorf("the states of a recovery job have no %s", s)
		}
	}
}

// The plots show figures of the document; without them the generator fails.
func TestPlotsNeedTheirFigures(t *testing.T) {
	text, err := os.ReadFile(measurements)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := plotMeasurements(strings.ReplaceAll(string(text), measured, "0")); err == nil {
		t.Error("a document without the figures was plotted")
	}
}
