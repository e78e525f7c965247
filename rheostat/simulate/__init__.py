"""`rheostat simulate`: a scenario file → a world, a run of it, and what came of it in words and as a picture."""
