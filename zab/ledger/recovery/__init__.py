"""Recovery: closes the ledger of a writer that is gone, or that shall be gone, without losing what was acknowledged."""
