"""Run the gateway's parts, watch them, and show their state."""
