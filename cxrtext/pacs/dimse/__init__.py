"""DICOM over associations: as a client of C-FIND, C-GET and C-MOVE, and as a C-STORE server."""
