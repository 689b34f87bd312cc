"""TLS as servers and clients have it in common: who one is and whom one believes (`stores`; those of Java are read by
`java_key_store`, and `key_derivation` says what PKCS#12 costs), whom a certificate names (`subjects`), and for which
hosts it is good (`certificate_names`)."""
