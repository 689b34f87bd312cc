"""What every service says of itself: its version, spans of tracing, what is around its process."""
