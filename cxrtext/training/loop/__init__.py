"""The training loop, whatever is trained: steps, states, schedule, processes, devices."""
