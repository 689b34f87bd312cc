"""Who belongs to the ensemble, as far as a member has to do with it."""
