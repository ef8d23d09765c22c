package frame

import (
	"slices"
)

// MenuGroup is a part of the navigation with an optional heading.
type MenuGroup struct {
	Heading string
	Items   []MenuItem
}

// MenuItem is a page of the navigation. A page belongs to the item with the longest Path that its own path begins with.
type MenuItem struct {
	Path, Name, Icon string
	Tabs             []MenuItem // pages that the page shows as tabs; the item leads to the first of them
}

// menuCount is how many things wait for a person at an item of the navigation.
type menuCount struct {
	Class, Text string // Text says what they are
	N           int
}

// waiting returns the numbers of the navigation that are not 0.
func (d *Dashboard) waiting(account string) map[string]*menuCount {
	counts := map[string]*menuCount{}
	if n := d.Deps.Waiting.AwaitingApproval(account); n > 0 {
		counts[RecoveriesPath] = &menuCount{"ask", "awaiting approval", n}
	}
	if n := d.Deps.Waiting.OutstandingFindings(); n > 0 {
		counts[FindingsPath] = &menuCount{"warn", "open or acknowledged", n}
	}
	return counts
}

// Target is the path that the item leads to.
func (x MenuItem) Target() string {
	if len(x.Tabs) > 0 {
		return x.Tabs[0].Path
	}
	return x.Path
}

// Holds reports whether a path belongs to the item.
func (x MenuItem) Holds(path string) bool {
	if x.Path == "/app" {
		return path == x.Path
	}
	return path == x.Path || len(path) > len(x.Path) && path[:len(x.Path)+1] == x.Path+"/"
}

// ListOf returns the page of the menu that a path belongs to, nil if there is none.
func (d *Dashboard) listOf(path string) *MenuItem {
	for _, g := range d.menu {
		for _, item := range g.Items {
			for _, x := range append(slices.Clone(item.Tabs), item) {
				if x.Holds(path) {
					return &x
				}
			}
		}
	}
	return nil
}
