"""Commands for hospital systems: a PACS, and reports over HL7."""
