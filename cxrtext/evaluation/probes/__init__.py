"""What frozen features hold: probes, neighbors, and their export."""
