"""Several services, each with a part of an archive, searched as one over HTTP."""
