"""The parts of the job `history`, which checks recorded client histories."""
