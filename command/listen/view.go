package listen

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// line is a copy as one line of text.
func (c Copy) line() string {
	status := "failed"
	if c.Status != 0 {
		status = fmt.Sprint(c.Status)
	}
	text := fmt.Sprintf("%s  %-6s %d ms  %s %s", c.At.Format("15:04:05"), status, c.Took.Milliseconds(), c.Event.Method,
		c.Event.ID)
	if c.Event.Type != nil {
		text += "  " + *c.Event.Type
	}
	if c.Again {
		text += "  sent again"
	}
	if c.Fault != "" {
		text += "  " + c.Fault
	}
	return printable(text)
}

func (c Copy) ok() bool { return c.Status >= 200 && c.Status < 300 }

// counts of copies by what became of them.
type counts struct{ ok, other, failed int }

func (n *counts) add(c Copy) {
	switch {
	case c.ok():
		n.ok++
	case c.Status != 0:
		n.other++
	default:
		n.failed++
	}
}

func (n *counts) String() string {
	return fmt.Sprintf("%d answered with 2xx, %d with another status, %d without an answer", n.ok, n.other, n.failed)
}

// printable removes what could move the cursor or break the line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// Plain shows each copy as a line, for pipes and logs.
type Plain struct {
	Out, Err io.Writer
	counts
}

// Status implements View.
func (p *Plain) Status(text string) { fmt.Fprintln(p.Err, printable(text)) }

// Warn implements View.
func (p *Plain) Warn(text string) { fmt.Fprintln(p.Err, "warning: "+printable(text)) }

// Copied implements View.
func (p *Plain) Copied(c Copy) {
	p.add(c)
	fmt.Fprintln(p.Out, c.line())
}

// Summary counts the copies.
func (p *Plain) Summary() string { return "Copies: " + p.String() }
