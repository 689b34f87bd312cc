"""The parts of the job `verify`, which checks whether members hold one history."""
