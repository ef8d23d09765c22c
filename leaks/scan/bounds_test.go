package scan

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The host of a page's base may be long too, and so may the sitemaps that an index names.
func TestLongHostsAndSitemaps(t *testing.T) {
	scripts := `<html><base href="https://` + strings.Repeat("A", 1_900) + `/">` +
		strings.Repeat("<script src=1></script>", 2*maxNext)
	index := "<sitemapindex>" +
		strings.Repeat("<loc>https://shop.example.com/"+strings.Repeat("a", 1_900)+"</loc>", 3_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ofHost := readBody(t, page, scripts)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 150<<20 {
		t.Errorf("%d bytes take %d bytes of memory, one after the other", len(scripts), taken)
	}
	for name, res := range map[string]*result{"host": ofHost, "sitemaps": readBody(t, sitemap, index)} {
		size := 0
		for _, n := range res.next {
			size += len(n.url.String())
		}
		if size > 5<<20 || len(res.next) < 500 || res.dropped == 0 {
			t.Errorf("%s: %d URLs of %d bytes, %d dropped", name, len(res.next), size, res.dropped)
		}
	}
}

// Text after the end of a source map is looked at too. The names of a map's first sources are kept.
func TestMapWithMoreBehindIt(t *testing.T) {
	res := readBody(t, sourceMap, mapOf(t, "a.ts", key("in the map"))+" "+key("behind the map"))
	if len(res.secrets) != 2 || res.skipped != skippedUnreadable {
		t.Errorf("%d secrets, %q", len(res.secrets), res.skipped)
	}
	body := `{"sources":["a"` + strings.Repeat(`,"a"`, maxSources) + `],"sourcesContent":[` +
		strings.Repeat("null,", maxSources-1) + `"` + key("last name") + `","` + key("without a name") + `"]}`
	if res = readBody(t, sourceMap, body); len(res.secrets) != 2 || res.secrets[0].File != "a" ||
		res.secrets[1].File != unnamed {
		t.Errorf("%+v", res.secrets)
	}
}

// Paths and hosts may be equal as far as they are shown: those take the room of others, and no time.
func TestLongNamesAreMaskedSeldom(t *testing.T) {
	r, long := newReport(rules(t)), strings.Repeat("a", maxPath)
	for i := range maxSkipped + 10 {
		r.addSkipped(fmt.Sprint("/", long, i), skippedQuery)
		r.addThirdParty(fmt.Sprint(long, i))
	}
	r.addSkipped("/other", skippedQuery)
	r.addThirdParty("other")
	if len(r.Skipped) != 1 || r.More != maxSkipped+10 {
		t.Errorf("%d paths are shown, %d more", len(r.Skipped), r.More)
	}
	if r.complete(); len(r.ThirdParty) != 1 {
		t.Errorf("%d hosts are shown", len(r.ThirdParty))
	}
	r = newReport(rules(t))
	if n := testing.AllocsPerRun(10, func() { r.addThirdParty(long) }); n > 0 { // a first run is not counted
		t.Errorf("a host that is known is masked: %v allocations", n)
	}
}
