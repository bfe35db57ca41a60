"""Reports received as HL7 v2 messages over MLLP."""
