"""What all protocols of this project share on the wire: frames, and checked records in them.

Services declare their own messages with it. Imports no other package of this project.
"""
