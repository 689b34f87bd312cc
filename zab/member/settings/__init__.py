"""Every key that a member acts on: read once, into one frozen `Config`."""
