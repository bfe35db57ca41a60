"""What is found in an image as DICOM objects that a PACS takes and a viewer opens.

``finding``: what a model finds of a sentence.  ``source``: the image's header, and what of it a
result repeats.  ``identity``: UIDs that follow from source, model and sentence, and how own results
are told.  ``capture``, ``report``, ``segmentation``, ``presentation``, ``rejection``: an object
each.  ``folder``: results on disk, with what was sent where.  ``sending``: to a peer.
"""
