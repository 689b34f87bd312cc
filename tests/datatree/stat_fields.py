"""The fields of a stat, in their order."""

FIELDS = (
    "czxid",
    "mzxid",
    "ctime",
    "mtime",
    "version",
    "cversion",
    "aversion",
    "owner",
    "length",
    "children",
    "pzxid",
)
