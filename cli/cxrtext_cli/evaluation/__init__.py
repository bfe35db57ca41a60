"""What ``cxrtext evaluate`` does with an evaluation: shows it, keeps it, compares it."""
