package doctor

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/streamtest"
)

// A backlog as old as half of the retention is a warning, one of nearly all of it a failure.
func TestUnreadWarnsBeforeRetention(t *testing.T) {
	_, conf := streamtest.Broker(t, 1)
	p := must.Get(stream.NewProducer(conf, "test"))(t)
	t.Cleanup(p.Close)
	must.Do(t, p.ProduceSync(t.Context(), stream.Receipts, 0, &stream.Record{Value: []byte("x")}))
	log := must.Get(stream.NewReader(conf, "test"))(t)
	t.Cleanup(log.Close)
	for days, want := range map[int]string{4: StateOK, 6: StateWarn, 10: StateFail} {
		x := &checker{log: log, Target: Target{
			Retention: 10 * 24 * time.Hour, Now: func() time.Time { return time.Now().AddDate(0, 0, days) },
		}}
		if c := x.unread(t.Context()); c.State != want || (len(c.Details) == 1) != (want != StateOK) ||
			(c.Advice != "") != (want != StateOK) {
			t.Errorf("after %d days: %+v", days, c)
		}
	}
}
