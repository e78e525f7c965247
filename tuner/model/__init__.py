"""The values the tuner thinks in. Pure: no I/O, no clock, no random; units are the last words of a name."""
