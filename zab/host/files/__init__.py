"""Files that hold secrets, and files that are read again while a service runs."""
