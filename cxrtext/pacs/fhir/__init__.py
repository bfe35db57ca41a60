"""Results as FHIR R4; reports as FHIR are read by `cxrtext.datasets.importing.reports.fhir`."""
