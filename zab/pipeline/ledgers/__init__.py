"""Ledgers as DataFrames: the entries in the directories of bookies, and whether bookies agree on them."""
