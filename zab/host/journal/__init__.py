"""The journal, and writers of records that never delay the loop."""
