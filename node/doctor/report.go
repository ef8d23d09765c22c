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
	StateWarn = "warn" // needs attention within a day
	StateFail = "fail" // something does not work, or events may be lost
)

// Check is the result of one check.
type Check struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Text    string   `json:"text"`
	Advice  string   `json:"advice,omitempty"` // what to do next
	Details []string `json:"details,omitempty"`
}

// Report is the result of relay doctor.
type Report struct {
	Node   string  `json:"node,omitempty"` // the node that was asked; empty: the engines were asked directly
	Checks []Check `json:"checks"`
}

// maxDetails bounds the detail lines that are printed for a check; JSON has all.
const maxDetails = 20

// Write writes the report as JSON or as text.
func (r Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	r.Print(w)
	return nil
}

// Print writes one line for each check, its details, and a line with the advice.
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

// Err returns an error that names the failed checks; nil if none failed.
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
