"""Measures of importance: an entry for each, with its formula, row terms, title and unit."""
