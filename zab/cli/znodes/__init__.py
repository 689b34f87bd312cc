"""The commands that talk to servers, and their shell."""
