"""Trees as flat arrays that are validated once, and sums over rows at their nodes."""
