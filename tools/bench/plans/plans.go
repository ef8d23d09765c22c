// Package plans bounds the rows that ClickHouse reads for each kind of list, on a store that package fill has filled.
// It has tests alone.
package plans
