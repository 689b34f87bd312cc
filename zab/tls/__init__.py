"""TLS as servers and clients have it in common: who one is and whom one believes (`stores`, and those of Java,
`java_key_store`), whom a certificate names (`subjects`), and for which hosts it is good (`certificate_names`)."""
