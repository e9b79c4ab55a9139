"""Sends rows down trees. Two engines of the same results: `native` (C++) and `numpy` (the readable reference)."""
