"""Public and hospital data sets turned into data folders, and data folders checked."""
