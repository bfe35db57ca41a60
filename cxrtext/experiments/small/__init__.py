"""The papers' experiments on small images: data, trainings, probes, tables and figures."""
