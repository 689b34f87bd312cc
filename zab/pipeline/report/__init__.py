"""The parts of the job `report`, which makes a page for people."""
