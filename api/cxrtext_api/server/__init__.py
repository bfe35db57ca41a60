"""Run the application in a process: its socket, its signals, its end."""
