"""The training loop for any job: steps, states, schedule, processes, devices."""
