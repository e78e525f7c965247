"""The process `rheostat learn`: reads the history topic, and writes the profiles topic."""
