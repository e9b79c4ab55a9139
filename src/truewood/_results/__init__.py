"""Results: scores with standard errors, as tables, plots and files."""
