"""What an operator sees of the requests: the audit log, log lines, numbers."""
