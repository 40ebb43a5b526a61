mod log; // tree, tiles, proofs, map, notes: spec/log.md
