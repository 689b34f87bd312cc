"""What is asked of running members, and of the machine of one: for status, checks, backups and support."""
