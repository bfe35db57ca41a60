"""Hospital reports from tables, text, HL7 v2 and DICOM SR, as versions with status and time."""
