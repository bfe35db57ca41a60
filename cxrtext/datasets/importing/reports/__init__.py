"""Reports of hospitals: versions with a status and a time, from tables, text, HL7 v2 and SR."""
