"""`zab pipeline`: one module for each group of jobs."""
