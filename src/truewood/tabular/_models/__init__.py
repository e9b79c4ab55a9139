"""Fit, load and score models."""
