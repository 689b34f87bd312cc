"""The commands that read logs and snapshots, and that restore or recover members' directories."""
