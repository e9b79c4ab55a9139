"""Trees as flat arrays that are checked once, and what rows say at their nodes."""
