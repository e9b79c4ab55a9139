"""Understand columns: their kinds, their roles, and the target."""
