"""Record batches of format 2: headers, checks, stamps, records, codecs, control batches.

Bytes in, bytes out; knows no file and no broker. Begin with `batch.py`.
"""
