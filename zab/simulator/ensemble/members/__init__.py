"""Members that are simulated: the production code of each, on simulated ports, watched by an observer."""
