"""Forgetting a patient or a study: what is known of them, in every place where it is kept."""
