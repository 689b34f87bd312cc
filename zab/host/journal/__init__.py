"""The journal, and trails of records that never hold the loop up."""
