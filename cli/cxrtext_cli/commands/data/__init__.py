"""Commands of data: draw, import, check, forget."""
