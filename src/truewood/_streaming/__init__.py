"""The same sums over more rows than fit into memory, added up part by part: Parquet, Arrow, Dask, Spark."""
