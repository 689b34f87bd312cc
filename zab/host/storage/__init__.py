"""The real disk, and the threads that work on it."""
