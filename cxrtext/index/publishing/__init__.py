"""Publishing an index for read-only replicas: as files by their digest, pulled by whoever reads.

``publication``: what lies where it is published; ``publish``: putting it there; ``collect``: what
is removed again; ``pull``: a replica of it.
"""
