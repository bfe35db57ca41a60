"""Training of an encoder on views of images, and probes of what it learned."""
