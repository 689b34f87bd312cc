"""What is asked for, found in files, read as DataFrames: data sources `zab.log`, `zab.damage`, `zab.snapshot`."""
