"""Into and out of the PACS: what a hospital sends is received, and results go back."""
