"""Check a table and a model before trusting their scores."""
