"""Infer column types, and read roles and the target."""
