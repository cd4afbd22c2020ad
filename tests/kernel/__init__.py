"""What only a real kernel shows: event loops, blocking cells, interrupts, restarts."""
