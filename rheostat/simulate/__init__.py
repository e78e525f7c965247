"""`rheostat simulate`: reads a scenario file, simulates it, and reports the result as text, JSON and a chart."""
