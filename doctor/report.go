package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// States of a check.
const (
	StateOK   = "ok"
	StateWarn = "warn" // somebody should look at it
	StateFail = "fail" // something does not work, or events would be lost
)

// Check is what one look at the service came to.
type Check struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Text    string   `json:"text"`
	Advice  string   `json:"advice,omitempty"` // what to do next
	Details []string `json:"details,omitempty"`
}

// Report is the answer of relay doctor.
type Report struct {
	Node   string  `json:"node,omitempty"` // that was asked; empty: the engines themselves
	Checks []Check `json:"checks"`
}

// maxDetails bounds the lines of details that are printed of a check; JSON has all.
const maxDetails = 20

// Write prints the report, as JSON or for people.
func (r Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	r.Print(w)
	return nil
}

// Print writes one line for each check, and below it what to do about it.
func (r Report) Print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", c.State, c.Name, c.Text)
		for i, d := range c.Details {
			if i == maxDetails {
				fmt.Fprintf(tw, "\t\t  … and %d more; --json has them all\n", len(c.Details)-i)
				break
			}
			fmt.Fprintf(tw, "\t\t  %s\n", d)
		}
		if c.Advice != "" {
			fmt.Fprintf(tw, "\t\t→ %s\n", c.Advice)
		}
	}
	tw.Flush()
}

// Err names the checks that failed.
func (r Report) Err() error {
	var failed []string
	for _, c := range r.Checks {
		if c.State == StateFail {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
}
