"""Commands of a service: serve, keys, backup."""
