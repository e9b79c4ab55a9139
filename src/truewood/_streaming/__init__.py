"""Out-of-core scoring: sums over parts of the rows from Parquet and Arrow files, Dask and Spark."""
