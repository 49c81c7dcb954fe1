// Package report turns the record of a sitting into tables: medians over the rounds, and the ratio of this engine to the
// best fully durable peer.
//
// The types:
//
//   - [Report] is the tables, made by [New].
//   - [Report.Text] writes them for a terminal, [Report.Markdown] for docs/performance.md.
//
// # Rules
//
// A peer that may lose what it acknowledged is shown and never compared with: durability is the price of the numbers. A
// value in parentheses is of a process whose server did part of the work, and is not compared either.
package report
