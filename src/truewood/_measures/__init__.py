"""The measures: one entry each, with its formula, its row terms, its title and its unit."""
