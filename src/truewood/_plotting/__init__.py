"""Matplotlib plots of results."""
