"""The models. They compute values from values: no I/O, no clock, no random numbers."""
