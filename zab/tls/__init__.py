"""TLS for servers and clients: one's own key and the authorities that one trusts (`stores`; `java_key_store` reads
Java's, `key_derivation` bounds the cost of PKCS#12), whom a certificate names (`subjects`), and for which hosts it is
valid (`certificate_names`)."""
