"""`rheostat journal`: records of the journal that cannot be read, listed and mended."""
