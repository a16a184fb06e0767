"""More rows than memory: row groups of Parquet files, scored and fitted here or on a cluster."""
