"""The addresses of the API, one file per noun."""
