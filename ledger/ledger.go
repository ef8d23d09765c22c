// Package ledger counts what became of everything that was accepted, from the log alone, so that lost work
// is found and not assumed away.
//
// In flow the topics events, commands, outcomes and dead, the retry topics, and what the dispatchers have
// committed; out flow counts. Per event and destination (an event that asks for no delivery counts once):
//
//	accepted = delivered + failed + skipped + rejected + dead + in flight + residue
//
// The newest word of a delivery decides, by the same versions as in the store (event.Version). What has no
// last word must be in flight: a record that asks for it stands undone in events, commands or a retry
// topic. Each chain of a delivery, the automatic one and every replay, is held to that. What is neither ended
// nor undone is residue: lost, and named. Residue is 0 at every moment, not only when it is quiet; why no
// moment is the wrong one to look is said at cut.
//
// Nothing is written and nothing is trusted but the log: no memory of a dispatcher, no table.
//
// # Invariants
//
//  1. Nothing is called lost that is not, while work moves, dispatchers die, offsets are rewound and records
//     stand in the log twice (TestAuditOfRandomHistories).
//  2. What is lost is found and named (TestLostWorkIsNamed).
//  3. The counts are sets, not sums: a redo changes none but Duplicates (TestAuditOfRandomHistories).
package ledger
