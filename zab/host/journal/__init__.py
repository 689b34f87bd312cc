"""The journal, the audit log and spans, and writers that never delay the loop."""
