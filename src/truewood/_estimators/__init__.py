"""Forests with unbiased importances, the feature selector, and the display."""
