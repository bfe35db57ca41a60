"""Publishing an index for read-only replicas: as files by their digest, pulled by whoever reads.

``publication``: what lies where it is published, and what is removed again; ``publish``: putting it
there; ``pull``: a replica of it.
"""
