"""A peer over DICOMweb: as a client of QIDO-RS, WADO-RS and STOW-RS."""
