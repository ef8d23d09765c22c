package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config/retry"
)

// measured is the commit whose figures the plots show. The measurements of a commit begin with "Commit" and its name.
const measured = "07c2e68c"

// plotRetries draws the attempts of the default policy and of exponential back-off on a logarithmic axis of time.
func plotRetries() *picture {
	p := &picture{width: 900, height: 250, title: "When the ten attempts of a delivery are made: with the default " +
		"schedule over three days, with exponential back-off within the first hour"}
	at := func(seconds float64) int { return 170 + int(690*math.Log(max(seconds, 1))/math.Log(4*86400)) }
	p.text(20, 30, "h", "Attempts of a delivery by the time after the first")
	for _, seconds := range []float64{10, 60, 600, 3600, 21600, 86400, 4 * 86400} {
		p.add(`<path class="grid" d="M%d 46V206"/>`, at(seconds))
		p.text(at(seconds), 226, "m s", duration(seconds))
	}
	for row, strategy := range retry.StrategyNames()[:2] {
		policy, y, after := retry.Default(), 90+70*row, 0.0
		policy.SetStrategy(strategy)
		p.text(20, y+5, "t", strategy)
		for n := 1; n <= policy.Attempts(); n++ {
			p.add(`<circle class="dot" cx="%d" cy="%d" r="7"/>`, at(after), y)
			p.text(at(after), y-14+40*(n%2), "m s", duration(after))
			after += policy.DelaySeconds(n)
		}
	}
	return p
}

// duration writes seconds in the largest unit that fits.
func duration(seconds float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}} {
		if n := seconds / unit.seconds; n >= 1 {
			return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + " " + unit.name
		}
	}
	return "0"
}

// plotMeasurements draws the figures of a document: how many events a relay and the bare pipeline accept, and how late
// events arrive alone and beside destinations that hang.
func plotMeasurements(document string) (throughput, latency *picture, err error) {
	_, section, _ := strings.Cut(document, "Commit "+measured)
	section, _, _ = strings.Cut(section, "\nCommit ")
	cells := func(row string) []string {
		_, line, found := strings.Cut(section, "\n| `"+row)
		line, _, _ = strings.Cut(line, "\n")
		if !found || strings.Count(line, " | ") < 2 {
			err = fmt.Errorf("the measurements of commit %s have no row %s", measured, row)
			return make([]string, 3)
		}
		return strings.Split(line, " | ")
	}
	var accepted, arrived [][3]string
	for _, clients := range []string{"32", "128"} {
		relay, bare, _ := strings.Cut(cells("flat --posters " + clients + "`")[1], ", ")
		bare, _, _ = strings.Cut(bare, ", ")
		accepted = append(accepted, [3]string{clients + " clients", relay, bare})
	}
	for _, rate := range []string{"200", "500"} {
		found := cells("--rate " + rate)
		for i, quantile := range []string{"p50", "p99"} {
			row := [3]string{rate + " a second, " + quantile}
			for column := range 2 {
				var turns []string // each has p50 / p99
				for turn := range strings.SplitSeq(found[column+1], " · ") {
					turns = append(turns, strings.Split(turn+" / ", " / ")[i])
				}
				row[column+1] = strings.Join(turns, " · ")
			}
			arrived = append(arrived, row)
		}
	}
	throughput = plotBars("Events accepted and delivered a second", "", [2]string{"relay", "bare pipeline"}, accepted)
	latency = plotBars("Time from the request to the delivery", " ms",
		[2]string{"alone", "beside 500 destinations that hang"}, arrived)
	return throughput, latency, err
}

// plotBars draws rows of a name and two values, each as a bar. A value is as the document has it, with a dot between
// those of several turns; the bar shows their mean.
func plotBars(title, unit string, names [2]string, rows [][3]string) *picture {
	p := &picture{width: 900, height: 110 + 62*len(rows), title: title}
	p.text(20, 30, "h", title)
	p.text(20, 52, "s", "Two cores, each event on disk before it is acknowledged. Commit "+measured)
	most := 0.0
	for _, row := range rows {
		most = max(most, mean(row[1]), mean(row[2]))
		p.title += fmt.Sprintf("; %s: %s %s%s, %s %s%[4]s", row[0], names[0], row[1], unit, names[1], row[2])
	}
	for i, name := range names {
		p.add(`<rect class="bar%d" x="%d" y="72" width="11" height="11" rx="2"/>`, i+1, 170+90*i)
		p.text(187+90*i, 82, "s", name)
	}
	for i, row := range rows {
		p.text(156, 128+62*i, "e t", row[0])
		for j, value := range row[1:] {
			length, y := int(540*mean(value)/most), 102+62*i+23*j
			p.add(`<rect class="bar%d" x="170" y="%d" width="%d" height="20" rx="3"/>`, j+1, y, length)
			p.text(178+length, y+15, "s", value+unit)
		}
	}
	return p
}

// mean is that of numbers between dots: 8,032 · 9,026.
func mean(text string) (sum float64) {
	parts := strings.Split(text, " · ")
	for _, part := range parts {
		n, _ := strconv.ParseFloat(strings.ReplaceAll(part, ",", ""), 64)
		sum += n
	}
	return sum / float64(len(parts))
}
