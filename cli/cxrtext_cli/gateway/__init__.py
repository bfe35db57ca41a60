"""The gateway's parts, and what starts, watches and shows them."""
