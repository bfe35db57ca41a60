"""The service, its threads and processes, and what a request may use of them."""
