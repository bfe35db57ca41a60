"""What an operator sees of requests: the audit log, log lines, metrics."""
