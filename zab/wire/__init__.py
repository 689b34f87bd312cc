"""What all of this project's bytes on a wire have in common: frames, and checked records in them.

Services declare their own messages with it. Imports nothing of this project.
"""
