"""Pipelines: a fitted model without what is around it, and encoded columns traced back to the user's."""
