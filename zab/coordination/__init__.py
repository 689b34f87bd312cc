"""How pure code asks the coordination service: operations, handlers of several steps, and the driver of those."""
