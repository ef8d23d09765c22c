package web_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// members returns an object of n members with names of equal length.
func members(n int) []byte {
	b := []byte("{")
	for i := range n {
		b = fmt.Appendf(b, `"%06x":0,`, i)
	}
	return append(bytes.TrimSuffix(b, []byte(",")), '}')
}

func TestParseObjectBoundsMembers(t *testing.T) {
	got, err := web.ParseObject([]web.Member{{Name: "000000"}}, members(web.MaxMembers))
	if err != nil || len(got) != 1+web.MaxMembers {
		t.Errorf("%d members, %v", len(got), err)
	}
	_, err = web.ParseObject(nil, members(web.MaxMembers+1))
	is.Failed(t, err, "more than 1000 members")
	inside := fmt.Appendf(nil, `{"data":%s}`, members(5*web.MaxMembers))
	if _, err := web.ParseObject(nil, inside); err != nil {
		t.Error("MaxMembers applies to an inner object:", err)
	}
	// Duplicates are found below and above the number of members from which a map is used.
	for _, n := range []int{1, 15, 16, 17, 40, web.MaxMembers - 1} {
		for _, twice := range []int{0, n / 2, n - 1} {
			body := fmt.Appendf(bytes.TrimSuffix(members(n), []byte("}")), `,"%06x":1}`, twice)
			if _, err := web.ParseObject(nil, body); !errors.As(err, new(*web.DuplicateError)) {
				t.Errorf("member %d of %d twice: %v", twice, n, err)
			}
		}
	}
}

// expensive returns texts of about 1 MiB, each of a form that takes a careless parser more than linear time or memory.
func expensive() map[string][]byte {
	const size = 1 << 20
	fill := func(before, unit, after string) []byte {
		return []byte(before + strings.TrimSuffix(strings.Repeat(unit, size/len(unit)), ",") + after)
	}
	return map[string][]byte{
		"distinct members":    members(size / 11),
		"members of a member": fmt.Appendf(nil, `{"data":%s}`, members(size/11)),
		"objects of members":  fill(`{"data":[`, string(members(900))+",", "]}"),
		"empty objects":       fill(`{"data":[`, "{},", "]}"),
		"nested objects":      fill(`{"data":[`, strings.Repeat(`{"a":`, 60)+"1"+strings.Repeat("}", 60)+",", "]}"),
		"deep":                fill(`{"data":`, "[", ""),
		"one string":          fill(`{"data":"`, "x", `"}`),
		"one escaped string":  fill(`{"data":"`, `\u00e9`, `"}`),
		"an escaped name":     fill(`{"`, `\n`, `":1}`),
		"escaped names":       bytes.ReplaceAll(members(size/17), []byte(`"0`), []byte(`"\u0030`)),
		"one number":          fill(`{"data":`, "9", "}"),
		"numbers":             fill(`{"data":[`, "-1.5e-7,", "]}"),
		"digits":              fill(`{"data":[`, "1,", "]}"),
		"white space":         fill("{", " \n", "}"),
		"emoji":               fill(`{"data":"`, "\U0001f600", `"}`),
		"no end":              fill(`{"data":"`, `\\`, ""),
	}
}

// maxCost is the most processor time that parsing a body may take, as a multiple of that of json.Valid.
const maxCost = 10

// cost returns the processor time of read as a multiple of that of json.Valid for body. It compares the fastest of up
// to 20 rounds, because other programs and the garbage collector only make a round slower, and stops as soon as they
// are within maxCost.
func cost(t *testing.T, body []byte, read func()) float64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	valid, reader := time.Hour, time.Hour
	for range 20 {
		start := threadTime(t)
		json.Valid(body)
		between := threadTime(t)
		read()
		valid, reader = min(valid, between-start), min(reader, threadTime(t)-between)
		if reader <= maxCost*valid {
			break
		}
	}
	return float64(reader) / float64(valid)
}

// threadTime returns the processor time that this thread has used. Unlike the clock it does not advance while other
// programs run.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	must.Do(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return time.Duration(used.Nano())
}

func TestParseCostDependsOnLengthOnly(t *testing.T) {
	for name, body := range expensive() {
		f := func(reader string, read func()) {
			t.Helper()
			if got := cost(t, body, read); got > maxCost {
				t.Errorf("%s: %s costs %.1f times json.Valid, want at most %d", name, reader, got, maxCost)
			}
		}
		f("ParseObject", func() { _, _ = web.ParseObject(nil, body) })
		f("ParseEnvelope", func() { _, _ = web.ParseEnvelope(body) })
		array := bytes.TrimSuffix(bytes.TrimPrefix(body, []byte(`{"data":`)), []byte("}"))
		f("ParseArray", func() { _, _ = web.ParseArray(array, 1000) })
		if items, err := web.ParseEnvelopeArray(array, len(array)); err == nil { // as the API parses a batch
			f("ParseObject of each element", func() {
				for _, item := range items {
					_, _ = web.ParseObject(nil, item)
				}
			})
		}
	}
}

func BenchmarkParseObject1MiB(b *testing.B) {
	for name, body := range expensive() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = web.ParseObject(nil, body)
			}
		})
		b.Run(name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				json.Valid(body)
			}
		})
	}
}
