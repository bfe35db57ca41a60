"""What is found in an image as DICOM objects that a PACS takes and a viewer opens.

``finding``: what a model finds of a sentence.  ``image``: the image's header, and what of it a
result repeats.  ``capture``, ``report``, ``rejection``: the objects.  ``folder``:
results on disk, with what was sent where.  ``sending``: to a peer; ``rules``: by themselves.
"""
