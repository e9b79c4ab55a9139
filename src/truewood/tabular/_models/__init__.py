"""Fit, load and score models of tables."""
