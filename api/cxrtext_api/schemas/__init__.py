"""From the service's results to :mod:`cxrtext.client.answers`, and what a JSON body holds."""
