"""Zero-shot classification: prompts, scores, calibration, groups of patients."""
