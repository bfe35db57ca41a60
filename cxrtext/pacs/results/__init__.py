"""Findings in an image as DICOM objects that a PACS accepts and a viewer opens.

``finding``: how a sentence fits an image.  ``image``: the image's header, and what results repeat
from it.  ``capture``, ``report``: the objects.  ``folder``: results on disk, and what was sent
where.  ``sending``: to a peer; ``rules``: automatically; ``rejection``: taking results back.
"""
