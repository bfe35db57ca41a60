"""Limits on images, checked before anything is decoded, whatever a file claims."""

MAX_SIDE = 65_535  # rows or columns
MAX_PIXELS = 100_000_000  # of a frame
MAX_FRAMES = 100_000
MAX_FILE_BYTES = 2**30
MAX_HEADER_BYTES = 2**25  # of a DICOM file, up to its pixels
MAX_ELEMENTS = 250_000  # of a DICOM header
MAX_ITEMS = 50_000  # of sequences in a DICOM header
MAX_SCANS = 100  # of a JPEG

ALWAYS_DECODED = 2**24
"""Pixels of a full detector: decoded within a second whatever they hold."""
MAX_PIXELS_A_BYTE = 4096  # of a larger JPEG, JPEG-LS or JPEG 2000
MAX_PIXELS_A_PNG_BYTE = 64
"""Radiographs have fewer than ten, a blank picture of 8 bits a thousand."""

MEMORY_BYTES = 2**32  # address space of a process that decodes
MIN_MEMORY = 2**28
CPU_SECONDS = 30.0  # computing time for an image
