"""Services that take what hospital systems send, and put it into an inbox."""
