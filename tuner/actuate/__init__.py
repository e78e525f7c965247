"""I/O out: obeys. Reads before it writes, writes only a difference, reads back; the dry run is the same port."""
