"""One partition's log: segments of record batches, their indexes, and what is derived from the batches.

A `Log` is only memory: it knows segments, positions, epochs and producers, and assigns offsets at once. Each change of
a file leaves it as a file effect (`file_effects`), which `Files` performs over a `datatree.log.disk.Disk` on another
thread. What the log serves are slices of files, of bytes that the storage has confirmed. `recovery` makes a `Log` from
the files at the start; `directory` knows all logs of a broker.

The files are Kafka's, byte by byte: its tools read ours, and we read its.

Compaction (`cleaner`) is the only place here that looks into records, besides control batches.

Pure. Not here: replication, who may read how far.
"""
