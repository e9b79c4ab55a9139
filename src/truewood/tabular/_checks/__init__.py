"""Check a table and a model before their scores are believed."""
