"""Pipelines: the final estimator of a fitted pipeline, and encoded columns traced back to the caller's columns."""
