"""What frozen features hold: linear probes, and their export."""
