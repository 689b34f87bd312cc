"""TLS as servers and clients have it in common: who one is and whom one believes (`stores`), whom a certificate names
(`subjects`), and for which hosts it is good (`certificate_names`)."""
