"""The commands that talk to servers, and their shell. Each hands its work to `caller`, which finds a client for it."""
