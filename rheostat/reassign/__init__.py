"""`rheostat reassign`: a plan put on record, and watched. The tuner executes it; nothing here asks Kafka to move anything."""
