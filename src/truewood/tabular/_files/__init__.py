"""Read tables from files and data frames."""
