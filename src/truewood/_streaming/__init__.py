"""Scores from more rows than fit into memory, with sums added up part by part: Parquet, Arrow, Dask, Spark."""
