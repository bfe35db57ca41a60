"""``cxrtext fit`` and ``demo``: stages, what each rests on, and processes of trainings."""
