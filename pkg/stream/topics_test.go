package stream

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestJudgePartitions(t *testing.T) {
	c := Config{}
	topics := func(change func(kadm.TopicDetails)) kadm.TopicDetails {
		found := kadm.TopicDetails{}
		for _, s := range c.specs(3) {
			d := kadm.TopicDetail{Topic: "r." + s.name, Partitions: kadm.PartitionDetails{}}
			for p := range s.partitions {
				d.Partitions[p] = kadm.PartitionDetail{}
			}
			found["r."+s.name] = d
		}
		change(found)
		return found
	}
	for name, f := range map[string]struct {
		change func(kadm.TopicDetails)
		want   string // part of the error; empty = 3 partitions
	}{
		"as migrated":       {func(kadm.TopicDetails) {}, ""},
		"a topic is absent": {func(d kadm.TopicDetails) { delete(d, "r.retry.1h") }, "run `relay migrate` first: topics are missing: r.retry.1h"},
		"two are unknown": {func(d kadm.TopicDetails) {
			d["r.control"] = kadm.TopicDetail{Err: kerr.UnknownTopicOrPartition}
			d["r.events"] = kadm.TopicDetail{Err: kerr.UnknownTopicOrPartition}
		}, "topics are missing: r.events, r.control"},
		"not allowed to look": {func(d kadm.TopicDetails) { d["r.events"] = kadm.TopicDetail{Err: kerr.TopicAuthorizationFailed} }, "look at topic r.events"},
		"one is smaller":      {func(d kadm.TopicDetails) { delete(d["r.outcomes"].Partitions, 2) }, "r.outcomes has 2 partitions and r.events has 3"},
	} {
		n, err := judgePartitions(c.specs(unknown), "r.", topics(f.change))
		switch {
		case f.want == "" && (err != nil || n != 3):
			t.Errorf("%s: %d, %v", name, n, err)
		case f.want != "" && (err == nil || !strings.Contains(err.Error(), f.want)):
			t.Errorf("%s: %d, %v; want an error with %q", name, n, err, f.want)
		}
	}
}
