"""Trees as flat, validated arrays, and sums over the rows at their nodes."""
