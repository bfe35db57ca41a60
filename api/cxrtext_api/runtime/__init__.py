"""The service, the threads and processes that it runs on, and what a request takes of them."""
