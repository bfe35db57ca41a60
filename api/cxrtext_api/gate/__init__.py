"""The checks that every request passes before its body is read."""
