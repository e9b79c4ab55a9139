"""The same sums over more rows than fit into memory: parts of the rows add up, from any engine and in any order."""
