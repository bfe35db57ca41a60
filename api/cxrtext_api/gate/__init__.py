"""What every request passes before its body is read, and who may ask."""
