"""Plans for moving partitions, and what several commands need to know of where they are. command.py is the file to read first."""
