// Package main compares the rules of pkg/secrets with those of gitleaks: of the credentials that gitleaks finds in
// logs, how many does the relay find? It is a module of its own, so that gitleaks is no part of the relay. run.sh
// runs it.
package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/zricethezav/gitleaks/v8/detect"

	"github.com/eventrelay/relay/pkg/secrets"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// run reads credentials in contexts: lines with the rule, the text before it, the credential and the text behind it.
func run(name string) error {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return err
	}
	oracle, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	all, theirs, both, ours := 0, 0, 0, 0
	missed := map[string]int{} // by rule
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		var texts [3]string
		for i := range texts {
			if texts[i], err = strconv.Unquote(fields[i+1]); err != nil {
				return err
			}
		}
		before, secret, text := texts[0], texts[1], strings.Join(texts[:], "")
		found, known := finds(scanner, text, len(before), len(secret)), knows(oracle, text, secret)
		all++
		if known {
			theirs++
		}
		if found {
			ours++
		}
		if known && found {
			both++
		} else if known {
			missed[fields[0]]++
		}
	}
	fmt.Printf("%d credentials in contexts: gitleaks finds %d, the relay %d\n", all, theirs, ours)
	fmt.Printf("recall of what gitleaks finds: %d of %d, %.2f %%\n", both, theirs, 100*float64(both)/float64(theirs))
	for _, rule := range slices.Sorted(maps.Keys(missed)) {
		fmt.Printf("missed %s: %d\n", rule, missed[rule])
	}
	if theirs == 0 || both*100 < theirs*99 {
		return fmt.Errorf("recall is below 99 %%")
	}
	return nil
}

// finds reports whether the relay finds exactly the credential at a position.
func finds(s *secrets.Scanner, text string, start, length int) (found bool) {
	s.Scan([]byte(text), func(m secrets.Match) bool {
		found = m.Start == start && m.End == start+length
		return !found
	})
	return found
}

// knows reports whether gitleaks finds the credential or a part of it.
func knows(d *detect.Detector, text, secret string) bool {
	for _, f := range d.DetectString(text) {
		if f.Secret != "" && (strings.Contains(secret, f.Secret) || strings.Contains(f.Secret, secret)) {
			return true
		}
	}
	return false
}
