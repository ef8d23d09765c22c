package config

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
)

func newScan(id string) *leak.Scan {
	return &leak.Scan{Meta: entity.Meta{ID: "scn_" + id}, Domain: "dom_1", Hostname: "www.example.com",
		Trigger: leak.ScanManual}
}

// One scan runs at a time. One node has it, until its time has passed or it restarts; then another begins it again, and
// the first can neither change nor end it. It ends once.
func TestScanHasOneNode(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	must(n.CreateScan(ctx, newScan("1")))(t)
	if _, err := n.CreateScan(ctx, newScan("2")); !errors.Is(err, leak.ErrScanRunning) {
		t.Errorf("a second scan: %v", err)
	}
	if _, err := n.CreateScan(ctx, newScan("1")); !errors.Is(err, ErrConflict) {
		t.Errorf("the same id twice: %v", err)
	}
	first, err := n.BeginScan(ctx, "scn_1", "a", time.Hour)
	if err != nil || first.Status != leak.ScanRunning || first.Try != 1 || first.StartedAt.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := n.BeginScan(ctx, "scn_1", "b", time.Hour); !errors.Is(err, leak.ErrScanTaken) {
		t.Errorf("begun by two: %v", err)
	}
	must(n.UpdateScan(ctx, "scn_1", 1, -time.Second, func(s *leak.Scan) { s.Pages = 3 }))(t)
	second, err := n.BeginScan(ctx, "scn_1", "b", time.Hour)
	if err != nil || second.Try != 2 || !second.StartedAt.Equal(first.StartedAt) || n.OpenScan().ID != "scn_1" {
		t.Fatalf("%+v, %v", second, err)
	}
	if third, err := n.BeginScan(ctx, "scn_1", "b", time.Hour); err != nil || third.Try != 3 {
		t.Fatalf("after a restart of its node: %+v, %v", third, err)
	}
	end := func(s *leak.Scan) { s.Status, s.Pages = leak.ScanCompleted, 7 }
	if _, err := n.UpdateScan(ctx, "scn_1", 1, time.Hour, end); !errors.Is(err, leak.ErrScanTaken) {
		t.Errorf("ended by the first: %v", err)
	}
	if s, err := n.UpdateScan(ctx, "scn_1", 3, time.Hour, end); err != nil || s.FinishedAt.IsZero() ||
		n.OpenScan() != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := n.UpdateScan(ctx, "scn_1", 3, time.Hour, end); !errors.Is(err, leak.ErrScanTaken) {
		t.Errorf("ended twice: %v", err)
	}
	if _, err := n.CreateScan(ctx, newScan("2")); err != nil {
		t.Errorf("a scan after the first: %v", err)
	}
}

// The newest hundred scans are kept.
func TestOldScansAreRemoved(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	for i := range leak.MaxScans + 3 {
		name := fmt.Sprint(i)
		must(n.CreateScan(ctx, newScan(name)))(t)
		must(n.UpdateScan(ctx, "scn_"+name, 0, 0, func(s *leak.Scan) { s.Status = leak.ScanFailed }))(t)
	}
	noError(t, n.sweepOnce(ctx))
	all, _ := n.Scans(n.Account().ID, []string{"dom_1"}, 0, 1000)
	if len(all) != leak.MaxScans || all[leak.MaxScans-1].ID != "scn_3" {
		t.Errorf("%d scans", len(all))
	}
}
