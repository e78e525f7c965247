"""`rheostat reassign`: puts a plan on record and watches it. The tuner executes the plan; this package moves nothing itself."""
