"""What every service has: ports of its turns, figures, audit records, spans, disk space, exit codes, version. Pure."""
