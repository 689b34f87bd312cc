"""What every service reports about itself: its version, tracing spans, the environment of its process."""
