"""The commands that read, restore and recover files."""
