"""Matplotlib figures; they read results only."""
