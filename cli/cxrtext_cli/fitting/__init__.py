"""``cxrtext fit``: stages as commands, what each rests on, and their processes."""
