"""The gateway: one file, one folder of state, and what runs beside a hospital's systems."""
