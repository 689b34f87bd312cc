"""What clients and bookies say to each other, in BookKeeper's two versions: the binary one (v2), and protocol buffers
(v3). Requests and answers of both are the same classes (`messages.py`); which version a frame has, only codecs know.
"""
