"""The gateway that runs beside a hospital's systems: one file and one folder of state."""
