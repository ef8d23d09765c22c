// Command promql reads PromQL expressions, a JSON list of texts, and prints for each which series and labels it names.
// The parser of Prometheus requires libraries that the relay does not need.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

// named is what one expression names.
type named struct {
	Error   string   `json:"error,omitempty"` // why it cannot be parsed
	Series  []series `json:"series"`
	Grouped []string `json:"grouped"` // labels of by and on
}

// series is a selector: a metric, and the labels that it compares.
type series struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

func main() {
	var expressions []string
	err := json.NewDecoder(os.Stdin).Decode(&expressions)
	all := make([]named, len(expressions))
	for i, expression := range expressions {
		all[i] = read(expression)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(all)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func read(expression string) (n named) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return named{Error: err.Error()}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			s := series{Metric: node.Name}
			for _, m := range node.LabelMatchers {
				if m.Name != "__name__" {
					s.Labels = append(s.Labels, m.Name)
				}
			}
			n.Series = append(n.Series, s)
		case *parser.AggregateExpr:
			if !node.Without {
				n.Grouped = append(n.Grouped, node.Grouping...)
			}
		case *parser.BinaryExpr:
			if m := node.VectorMatching; m != nil && m.On {
				n.Grouped = append(n.Grouped, m.MatchingLabels...)
			}
		}
		return nil
	})
	return n
}
