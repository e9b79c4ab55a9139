"""From a table to understood columns, a fitted model and its scores, without the command line."""
