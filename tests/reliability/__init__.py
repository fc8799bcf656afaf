"""Never loses, never lies: faults of every kind against the whole of labtui. See docs/reliability.md."""
