"""Which servers decide, and up to where their logs agree: for every replicated log."""
