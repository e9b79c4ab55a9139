"""Pipelines: the fitted model at the end of a pipeline, and the user's columns behind its encoded columns."""
