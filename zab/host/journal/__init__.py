"""The journal, and writers of records that never hold the loop up."""
