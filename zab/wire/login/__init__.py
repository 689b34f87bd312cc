"""How somebody proves who it is: the bytes of each mechanism, for both ends."""
