"""Auto-recovery: finds ledgers that lack copies, and copies their entries to other bookies."""
